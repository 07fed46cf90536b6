"""Services and endpoints: addresses and ports as a cluster would hand them out."""

import hashlib
import ipaddress
from collections.abc import Iterator

from watchword.api.json import copy_json
from watchword.api.meta import Object
from watchword.apiserver.field_errors import duplicate, invalid, not_supported, required
from watchword.apiserver.kinds.metadata import immutable_errors, port_errors
from watchword.apiserver.kinds.pod_validation import port_name
from watchword.apiserver.model import FieldError, Operation

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_EXPOSED = ("NodePort", "LoadBalancer")
_NETWORK = ipaddress.ip_network("10.96.0.0/12")
_FIRST_NODE_PORT, _NODE_PORTS = 30000, 2768


def default_service(service: Object) -> None:
    spec = service.setdefault("spec", {})
    kind = spec["type"] = spec.get("type") or "ClusterIP"
    if not spec.get("sessionAffinity"):
        spec["sessionAffinity"] = "None"
    for port in spec.get("ports") or ():
        if not port.get("protocol"):
            port["protocol"] = "TCP"
        if port.get("targetPort") in (None, 0, ""):
            port["targetPort"] = port.get("port") or 0
    if kind != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if kind in _EXPOSED and not spec.get("externalTrafficPolicy"):
        spec["externalTrafficPolicy"] = "Cluster"
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)


def prepare_service(operation: Operation) -> None:
    """Allocate the service's addresses and node ports; existing ones are kept."""
    service, old = operation.new, operation.old
    if service is None or operation.subresource == "status":
        return
    spec = service["spec"]
    if old is not None:
        _inherit(spec, old.get("spec") or {})
    if spec["type"] != "ExternalName":
        _assign_addresses(spec, str(operation.key))
    if spec["type"] in _EXPOSED and spec.get("allocateLoadBalancerNodePorts", True):
        for index, port in enumerate(spec.get("ports") or ()):
            if not port.get("nodePort"):
                port["nodePort"] = _FIRST_NODE_PORT + _spread(f"{operation.key}/{index}") % _NODE_PORTS


def _inherit(spec: Object, old: Object) -> None:
    if "ExternalName" in (spec["type"], old.get("type")):
        return
    for name in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "healthCheckNodePort"):
        if not spec.get(name) and old.get(name):
            spec[name] = copy_json(old[name])
    known = {(port.get("port"), port.get("protocol")): port.get("nodePort") for port in old.get("ports") or ()}
    for port in spec.get("ports") or ():
        held = known.get((port.get("port"), port.get("protocol")))
        if spec["type"] in _EXPOSED and held and not port.get("nodePort"):
            port["nodePort"] = held


def _assign_addresses(spec: Object, key: str) -> None:
    if not spec.get("clusterIP"):
        # The same name always gets the same address; nothing routes it, so a rare collision is harmless.
        offset = 1 if key == "default/kubernetes" else 16 + _spread(key) % (_NETWORK.num_addresses - 32)
        spec["clusterIP"] = str(_NETWORK[offset])
    spec.setdefault("clusterIPs", [spec["clusterIP"]])
    headless_without_pods = spec["clusterIP"] == "None" and not spec.get("selector")
    if not spec.get("ipFamilyPolicy"):
        spec["ipFamilyPolicy"] = "RequireDualStack" if headless_without_pods else "SingleStack"
    if not spec.get("ipFamilies"):
        spec["ipFamilies"] = ["IPv4", "IPv6"] if headless_without_pods else ["IPv4"]


def _spread(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])


def validate_service(operation: Operation) -> list[FieldError]:
    """Validate ports, type and affinity; an allocated address is immutable."""
    spec = (operation.new or {}).get("spec") or {}
    kind, ports = spec.get("type"), spec.get("ports") or []
    found = list[FieldError]()
    if not ports and kind != "ExternalName" and spec.get("clusterIP") != "None":
        found.append(required("spec.ports"))
    if kind == "ExternalName" and not spec.get("externalName"):
        found.append(required("spec.externalName"))
    found.extend(_ports_errors(ports))
    if spec.get("sessionAffinity") not in ("ClientIP", "None"):
        affinity = spec.get("sessionAffinity") or ""
        found.append(not_supported("spec.sessionAffinity", affinity, ("ClientIP", "None")))
    if kind not in _TYPES:
        found.append(not_supported("spec.type", kind or "", _TYPES))
    old = (operation.old or {}).get("spec") or {}
    changed = old.get("clusterIP") and spec.get("clusterIP") != old["clusterIP"]
    if changed and "ExternalName" not in (kind, old.get("type")):
        found.extend(immutable_errors(spec.get("clusterIPs"), None, "spec.clusterIPs[0]"))
    return found


def _ports_errors(ports: list[Object]) -> Iterator[FieldError]:
    names, numbers = set[str](), set[tuple[int, str]]()
    for index, port in enumerate(ports):
        path, name = f"spec.ports[{index}]", port.get("name") or ""
        if not name and len(ports) > 1:
            yield required(f"{path}.name")
        elif name in names:
            yield duplicate(f"{path}.name", name)
        names.add(name)
        yield from port_errors(port.get("port") or 0, f"{path}.port")
        if port.get("protocol") not in ("TCP", "UDP", "SCTP"):
            yield not_supported(f"{path}.protocol", port.get("protocol") or "", ("SCTP", "TCP", "UDP"))
        yield from _target_errors(port.get("targetPort"), f"{path}.targetPort")
        pair = (port.get("port") or 0, port.get("protocol") or "")
        if pair in numbers:
            yield duplicate(path, port)
        numbers.add(pair)


def _target_errors(target: int | str | None, path: str) -> Iterator[FieldError]:
    if isinstance(target, str):
        yield from (invalid(path, target, complaint) for complaint in port_name(target))
    else:
        yield from port_errors(target or 0, path)


def default_endpoints(endpoints: Object) -> None:
    for subset in endpoints.get("subsets") or ():
        for port in subset.get("ports") or ():
            port.setdefault("protocol", "TCP")
