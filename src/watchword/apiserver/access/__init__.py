"""Who may do what: authentication, authorization, tokens, and the rules that every plane starts with."""
