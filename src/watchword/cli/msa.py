"""`watchword msa`: `watchword serviceaccount`, for short."""

from __future__ import annotations

from copy import copy

from watchword.cli.serviceaccount import command as serviceaccount

command = copy(serviceaccount)
command.name = "msa"
