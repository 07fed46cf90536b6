"""Questions that are answered and not stored: who is this, and may they?"""
