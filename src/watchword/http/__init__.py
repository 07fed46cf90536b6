"""HTTP/1.1 on sockets: bytes become plain requests, plain answers become bytes."""
