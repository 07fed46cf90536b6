"""What a pod spec must look like, in a pod or in a template."""

import re
from collections.abc import Iterator
from typing import Any

from watchword.api.meta import Object
from watchword.api.quantity import parse_quantity
from watchword.apiserver.field_errors import duplicate, forbidden, invalid, not_found, not_supported, required
from watchword.apiserver.kinds.metadata import dns_label, dns_subdomain, port_errors
from watchword.apiserver.model import FieldError

_HOST_PATH_TYPES = ("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket")


def volume_errors(volumes: list[Object], path: str) -> Iterator[FieldError]:
    """Validate names and sources; each volume has one source."""
    seen = set[str]()
    for index, volume in enumerate(volumes):
        where, name = f"{path}[{index}]", volume.get("name") or ""
        sources = sorted(volume.keys() - {"name"}, key=list(volume).index)
        for extra in sources[1:]:
            yield forbidden(f"{where}.{extra}", "may not specify more than 1 volume type")
        if not name:
            yield required(f"{where}.name")
        elif name in seen:
            yield duplicate(f"{where}.name", name)
        else:
            yield from (invalid(f"{where}.name", name, complaint) for complaint in dns_label(name))
        seen.add(name)
        if len(sources) == 1:
            yield from _source_errors(sources[0], volume[sources[0]], f"{where}.{sources[0]}")


def _source_errors(kind: str, source: Object, path: str) -> Iterator[FieldError]:
    match kind:
        case "hostPath":
            yield from _host_path_errors(source, path)
        case "secret" | "configMap":
            key = "secretName" if kind == "secret" else "name"
            if not source.get(key):
                yield required(f"{path}.{key}")
            yield from _item_errors(source.get("items") or [], f"{path}.items")
        case "projected":
            for index, each in enumerate(source.get("sources") or ()):
                yield from _projection_errors(each, f"{path}.sources[{index}]")
        case "persistentVolumeClaim":
            if not source.get("claimName"):
                yield required(f"{path}.claimName")


def _host_path_errors(source: Object, path: str) -> Iterator[FieldError]:
    place = source.get("path") or ""
    if not place:
        yield required(f"{path}.path")
    elif ".." in place.split("/"):
        yield invalid(f"{path}.path", place, "must not contain '..'")
    if source.get("type") not in (None, *_HOST_PATH_TYPES):
        yield not_supported(f"{path}.type", source["type"], _HOST_PATH_TYPES)


def _projection_errors(source: Object, path: str) -> Iterator[FieldError]:
    for kind in ("secret", "configMap"):
        projected = source.get(kind)
        if projected is not None and not projected.get("name"):
            yield required(f"{path}.{kind}.name")
        if projected is not None:
            yield from _item_errors(projected.get("items") or [], f"{path}.{kind}.items")
    token = source.get("serviceAccountToken")
    if token is not None:
        yield from _token_errors(token, f"{path}.serviceAccountToken")


def _token_errors(token: Object, path: str) -> Iterator[FieldError]:
    seconds = token.get("expirationSeconds")
    if seconds is not None and seconds < 600:
        yield invalid(f"{path}.expirationSeconds", seconds, "may not specify a duration less than 10 minutes")
    if seconds is not None and seconds > 1 << 32:
        yield invalid(f"{path}.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds")
    if not token.get("path"):
        yield required(f"{path}.path")


def _item_errors(items: list[Object], path: str) -> Iterator[FieldError]:
    for index, item in enumerate(items):
        where, place = f"{path}[{index}]", item.get("path") or ""
        if not item.get("key"):
            yield required(f"{where}.key")
        if not place:
            yield required(f"{where}.path")
        elif place.startswith("/"):
            yield invalid(f"{where}.path", place, "must be a relative path")
        elif ".." in place.split("/"):
            yield invalid(f"{where}.path", place, "must not contain '..'")


_ENV_NAME = re.compile(r"[ -<>-~]+", re.ASCII)
_ENV_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")


def pod_spec_errors(spec: Object, path: str) -> Iterator[FieldError]:
    yield from volume_errors(spec.get("volumes") or [], f"{path}.volumes")
    volumes = {volume.get("name") for volume in spec.get("volumes") or ()}
    if not spec.get("containers"):
        yield required(f"{path}.containers")
    names = set[str]()
    for group in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(group) or ()):
            where = f"{path}.{group}[{index}]"
            yield from _name_errors(container, names, where)
            yield from _container_errors(container, volumes, where)
    yield from _policy_errors(spec, path)


def _name_errors(container: Object, seen: set[str], path: str) -> Iterator[FieldError]:
    name = container.get("name") or ""
    if not name:
        yield required(f"{path}.name")
    elif name in seen:
        yield duplicate(f"{path}.name", name)
    else:
        seen.add(name)
        yield from (invalid(f"{path}.name", name, complaint) for complaint in dns_label(name))


def _container_errors(container: Object, volumes: set[Any], path: str) -> Iterator[FieldError]:
    image = container.get("image") or ""
    if not image:
        yield required(f"{path}.image")
    elif image != image.strip():
        yield invalid(f"{path}.image", image, "must not have leading or trailing whitespace")
    yield from _port_errors(container.get("ports") or [], f"{path}.ports")
    for index, variable in enumerate(container.get("env") or ()):
        yield from _env_errors(variable, f"{path}.env[{index}]")
    yield from _mount_errors(container.get("volumeMounts") or [], volumes, f"{path}.volumeMounts")
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if container.get(name) is not None:
            yield from _probe_errors(container[name], f"{path}.{name}")
    yield from _resource_errors(container.get("resources") or {}, f"{path}.resources")
    policy = container.get("imagePullPolicy")
    if policy not in ("Always", "IfNotPresent", "Never"):
        yield not_supported(f"{path}.imagePullPolicy", policy or "", ("Always", "IfNotPresent", "Never"))


def _resource_errors(resources: Object, path: str) -> Iterator[FieldError]:
    limits = resources.get("limits") or {}
    for name, requested in (resources.get("requests") or {}).items():
        if name not in limits:
            continue
        wanted, most = parse_quantity(str(requested)), parse_quantity(str(limits[name]))
        if wanted is not None and most is not None and wanted > most:
            detail = f"must be less than or equal to {name} limit of {limits[name]}"
            yield invalid(f"{path}.requests", str(requested), detail)


def _port_errors(ports: list[Object], path: str) -> Iterator[FieldError]:
    names = set[str]()
    for index, port in enumerate(ports):
        where, name = f"{path}[{index}]", port.get("name")
        if name:
            complaints = port_name(name)
            yield from (invalid(f"{where}.name", name, complaint) for complaint in complaints)
            if not complaints and name in names:
                yield duplicate(f"{where}.name", name)
            names.add(name)
        if not port.get("containerPort"):
            yield required(f"{where}.containerPort")
        else:
            yield from port_errors(port["containerPort"], f"{where}.containerPort")
        if port.get("hostPort"):
            yield from port_errors(port["hostPort"], f"{where}.hostPort")
        if port.get("protocol") not in ("TCP", "UDP", "SCTP"):
            yield not_supported(f"{where}.protocol", port.get("protocol") or "", ("SCTP", "TCP", "UDP"))


def port_name(name: str) -> list[str]:
    found = ["must be no more than 15 characters"] if len(name) > 15 else []
    if not re.fullmatch(r"[-a-z0-9]+", name, re.ASCII):
        found.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search(r"[a-z]", name):
        found.append("must contain at least one letter (a-z)")
    if "--" in name:
        found.append("must not contain consecutive hyphens")
    if name and (name[0] == "-" or name[-1] == "-"):
        found.append("must not begin or end with a hyphen")
    return found


def _env_errors(variable: Object, path: str) -> Iterator[FieldError]:
    name = variable.get("name") or ""
    if not name:
        yield required(f"{path}.name")
    elif not _ENV_NAME.fullmatch(name):
        detail = "a valid environment variable name must consist only of printable ASCII characters other than '='"
        yield invalid(f"{path}.name", name, detail)
    source = variable.get("valueFrom")
    if source is None:
        return
    if variable.get("value"):
        yield invalid(f"{path}.valueFrom", "", "may not be specified when `value` is not empty")
    elif not any(source.get(kind) is not None for kind in _ENV_SOURCES):
        listed = ", ".join(f"`{kind}`" for kind in _ENV_SOURCES[:-1])
        yield invalid(f"{path}.valueFrom", "", f"must specify one of: {listed} or `{_ENV_SOURCES[-1]}`")


def _mount_errors(mounts: list[Object], volumes: set[Any], path: str) -> Iterator[FieldError]:
    seen = set[str]()
    for index, mount in enumerate(mounts):
        where, place = f"{path}[{index}]", mount.get("mountPath") or ""
        if not mount.get("name"):
            yield required(f"{where}.name")
        if mount.get("name") not in volumes:
            yield not_found(f"{where}.name", mount.get("name") or "")
        if not place:
            yield required(f"{where}.mountPath")
        elif place in seen:
            yield invalid(f"{where}.mountPath", place, "must be unique")
        seen.add(place)


def _probe_errors(probe: Object, path: str) -> Iterator[FieldError]:
    handlers = [name for name in _HANDLERS if probe.get(name) is not None]
    if not handlers:
        yield required(path, "must specify a handler type")
    for extra in handlers[1:]:
        yield forbidden(f"{path}.{extra}", "may not specify more than 1 handler type")
    for name in ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"):
        if (probe.get(name) or 0) < 0:
            yield invalid(f"{path}.{name}", probe[name], "must be greater than or equal to 0")


def _policy_errors(spec: Object, path: str) -> Iterator[FieldError]:
    if spec.get("restartPolicy") not in ("Always", "OnFailure", "Never"):
        policy = spec.get("restartPolicy") or ""
        yield not_supported(f"{path}.restartPolicy", policy, ("Always", "OnFailure", "Never"))
    if spec.get("dnsPolicy") not in _DNS_POLICIES:
        yield not_supported(f"{path}.dnsPolicy", spec.get("dnsPolicy") or "", _DNS_POLICIES)
    if spec.get("dnsPolicy") == "None" and not spec.get("dnsConfig"):
        yield required(f"{path}.dnsConfig", "must provide `dnsConfig` when `dnsPolicy` is None")
    account = spec.get("serviceAccountName") or ""
    if account:
        complaints = dns_subdomain(account)
        yield from (invalid(f"{path}.serviceAccountName", account, complaint) for complaint in complaints)
    seconds = spec.get("activeDeadlineSeconds")
    if seconds is not None and not 1 <= seconds <= 2147483647:
        yield invalid(f"{path}.activeDeadlineSeconds", seconds, "must be between 1 and 2147483647, inclusive")
