"""OpenAPI documents of everything served: `kubectl explain`, validation and apply read them."""

from watchword.apiserver.openapi.documents import OpenApiHandler, document, document_v2

__all__ = ["OpenApiHandler", "document", "document_v2"]
