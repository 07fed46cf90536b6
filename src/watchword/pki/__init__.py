"""Keys, requests, certificates, JWT and JWS: bytes in, bytes out."""
