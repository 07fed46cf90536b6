"""Which connection yields when there are too many."""

from __future__ import annotations

import pytest

from watchword.http.limits import ConnectionTable, choose_address_limit, choose_connection_limit, network_of


def a_table(limit: int, per_address: int, *connections: tuple[str, str]) -> ConnectionTable[str]:
    table: ConnectionTable[str] = ConnectionTable(limit, per_address)
    for name, address in connections:
        assert table.add(name, address)
    return table


def test_there_is_room_below_the_limits() -> None:
    table = a_table(3, 2, ("first", "10.0.0.1"), ("second", "10.0.0.2"))

    assert table.choose_victim("10.0.0.1") is None


def test_full_address_replaces_its_own_oldest_connection() -> None:
    table = a_table(9, 2, ("other", "10.0.0.2"), ("first", "10.0.0.1"), ("second", "10.0.0.1"))

    assert table.choose_victim("10.0.0.1") == "first"


def test_full_server_replaces_the_oldest_connection_of_the_address_with_most() -> None:
    table = a_table(3, 3, ("other", "10.0.0.2"), ("first", "10.0.0.1"), ("second", "10.0.0.1"))

    assert table.choose_victim("10.0.0.3") == "first"


def test_authenticated_connection_is_never_replaced_by_an_unauthenticated_one() -> None:
    table = a_table(3, 3, ("alice", "10.0.0.1"), ("bob", "10.0.0.1"), ("carol", "10.0.0.1"))
    for user in ("alice", "bob", "carol"):
        table.authenticate(user, user)

    assert table.choose_victim("10.0.0.2") is None
    assert not table.add("newcomer", "10.0.0.2")


def test_user_that_holds_more_than_half_yields() -> None:
    table = a_table(3, 3, ("a", "10.0.0.1"), ("b", "10.0.0.1"), ("c", "10.0.0.1"))
    table.authenticate("a", "alice")
    table.authenticate("b", "bob")
    table.authenticate("c", "bob")

    assert table.choose_victim("10.0.0.2") == "b"


def test_closed_connection_is_forgotten() -> None:
    table = a_table(1, 1, ("first", "10.0.0.1"))
    table.authenticate("first", "alice")

    table.discard("first")
    table.discard("first")
    table.authenticate("first", "alice")

    assert len(table) == 0
    assert table.add("second", "10.0.0.1")


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        pytest.param("10.0.0.1", "10.0.0.1", id="IPv4"),
        pytest.param("2001:db8::1:2:3:4", "2001:db8::/64", id="IPv6: a host chooses its own lower half"),
        pytest.param("fe80::1%eth0", "fe80::/64", id="link-local"),
        pytest.param("::ffff:10.0.0.1", "10.0.0.1", id="IPv4 in IPv6"),
        pytest.param("", "", id="unknown"),
    ],
)
def test_network_of(address: str, expected: str) -> None:
    assert network_of(address) == expected


@pytest.mark.parametrize(
    ("wanted", "descriptors", "connections", "per_address"),
    [
        pytest.param(4096, 1024, 768, 192, id="default of most systems"),
        pytest.param(4096, 65_536, 4096, 1024, id="enough descriptors"),
        pytest.param(64, 1024, 64, 16, id="health port"),
        pytest.param(4096, 8, 16, 16, id="hardly any"),
        pytest.param(1, 1024, 1, 1, id="one"),
    ],
)
def test_choose_connection_limit(wanted: int, descriptors: int, connections: int, per_address: int) -> None:
    assert choose_connection_limit(wanted, descriptors) == connections
    assert choose_address_limit(connections) == per_address
