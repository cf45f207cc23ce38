"""Probing a single node, over sockets that are not Kafka."""

from __future__ import annotations

import socket
import struct

from lagwatch.demo.kafka_probe import broker_ids, brokers_known_to, responds


def test_broker_ids_are_read_past_hosts_and_racks_of_any_length() -> None:
    metadata = struct.pack(">i", 3)
    for node_id, host, rack in ((1, b"127.0.0.1", None), (2, b"b", b"rack-17"), (30, b"kafka.example", b"")):
        metadata += struct.pack(">ih", node_id, len(host)) + host + struct.pack(">i", 9092)
        metadata += struct.pack(">h", -1) if rack is None else struct.pack(">h", len(rack)) + rack

    assert broker_ids(metadata + b"controller and topics follow") == {1, 2, 30}


def test_a_refused_connection_is_no_response() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]

    assert brokers_known_to(port) is None
    assert not responds(port)


def test_a_silent_listener_is_no_response() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert not responds(silent.getsockname()[1], timeout=0.1)
