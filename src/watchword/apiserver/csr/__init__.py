"""Certificate signing requests: what may be asked, who may approve and sign, what is signed."""
