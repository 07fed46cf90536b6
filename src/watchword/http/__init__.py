"""An HTTP/1.1 server on sockets: turns bytes into `Request` objects and `Response` objects into bytes."""
