"""Client certificates: request, approval, check of what was issued."""
