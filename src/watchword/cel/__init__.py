"""The subset of CEL that validation rules of schemas and conditions of works use."""
