"""The built-in kinds written as tables: number, name, type and merge rules of every field.

One message per unindented line, one field per indented line:

    Message [atomic] [; what it is]
      <protobuf number> <JSON name> <type> [flags] [; what it says]

A type is a scalar (`string`, `int32`, `int64`, `double`, `bool`, `bytes`, `time`, `microtime`,
`quantity`, `intstr`, `strings`, `json`) or a message; `[]` makes a list, `{}` a map with string
keys, `*` marks a value whose zero differs from absence. The name `-` inlines the message.

Flags: `!` required · `+` written even when empty · `omit` left out when empty although a message ·
`map=<keys>` and `set` list types · `merge=<key>`, `merge`, `retainKeys`, `merge+retainKeys=<key>`
strategic merge · `atomic` a map owned as a whole.
"""

from watchword.apiserver.kinds.tables import (
    access,
    admission,
    containers,
    core,
    extension,
    meta,
    pods,
    volumes,
    workloads,
)

TABLES: tuple[str, ...] = (
    meta.TABLE,
    core.TABLE,
    pods.TABLE,
    containers.TABLE,
    volumes.TABLE,
    workloads.TABLE,
    access.TABLE,
    extension.TABLE,
    admission.TABLE,
)
