"""What EKS' pod identity webhook does: pods whose ServiceAccount names a role get its ARN and a token for STS."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Awaitable, Callable

import orjson
from msgspec import Struct

from watchword.api.meta import Object, ObjectKey, annotations_of
from watchword.registration.aws_irsa.options import ROLE_ANNOTATION

VOLUME = "aws-iam-token"
FOLDER = "/var/run/secrets/eks.amazonaws.com/serviceaccount"
AUDIENCE = "sts.amazonaws.com"


class PodIdentityWebhook(Struct, frozen=True):
    """Answers AdmissionReviews of pods of one cluster."""

    region: str
    endpoint: str  # of the emulator: pods find the public one by themselves
    read_account: Callable[[ObjectKey], Awaitable[Object]]

    async def review(self, question: Object) -> Object:
        """Return the AdmissionReview with its response: the pod is allowed, with its identity where it has one."""
        asked = question["request"]
        spec: Object = asked["object"]["spec"]
        account = await self.read_account(ObjectKey(asked["namespace"], spec["serviceAccountName"]))
        response: Object = {"uid": asked["uid"], "allowed": True}
        role = annotations_of(account).get(ROLE_ANNOTATION)
        if role:
            patch = [{"op": "replace", "path": "/spec", "value": self._identified(spec, role)}]
            response |= {"patchType": "JSONPatch", "patch": b64encode(orjson.dumps(patch)).decode()}
        return {"apiVersion": question["apiVersion"], "kind": question["kind"], "response": response}

    def _identified(self, spec: Object, role: str) -> Object:
        variables = {
            "AWS_ROLE_ARN": role,
            "AWS_WEB_IDENTITY_TOKEN_FILE": f"{FOLDER}/token",
            "AWS_REGION": self.region,
            "AWS_DEFAULT_REGION": self.region,
            "AWS_STS_REGIONAL_ENDPOINTS": "regional",
            "AWS_ENDPOINT_URL": self.endpoint,
        }
        added = [{"name": name, "value": value} for name, value in variables.items()]
        mount = {"name": VOLUME, "mountPath": FOLDER, "readOnly": True}
        containers = [
            {**row, "env": [*row.get("env", ()), *added], "volumeMounts": [*row.get("volumeMounts", ()), mount]}
            for row in spec["containers"]
        ]
        token = {"audience": AUDIENCE, "expirationSeconds": 86400, "path": "token"}
        volume = {"name": VOLUME, "projected": {"sources": [{"serviceAccountToken": token}]}}
        return {**spec, "containers": containers, "volumes": [*spec.get("volumes", ()), volume]}
