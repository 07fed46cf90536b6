"""Field managers: managedFields and server-side apply."""
