"""OpenAPI documents of everything served: `kubectl explain`, validation and apply read them."""

from watchword.apiserver.openapi.documents import document, document_v2
from watchword.apiserver.openapi.serving import OpenApiHandler

__all__ = ["OpenApiHandler", "document", "document_v2"]
