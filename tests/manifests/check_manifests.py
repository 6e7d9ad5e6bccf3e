"""Validates YAML documents: kinds of Kubernetes by its own schemas, others by CustomResourceDefinitions.

python3 check_manifests.py --crd <file> ... -- <file> ...
Fields that a definition does not name are errors, as the API server's strict validation has them.
"""
import sys

import jsonschema
import kubernetes_validate
import yaml

KUBERNETES = "1.37"


def strict(schema):
    """The schema with unknown fields refused where fields are listed."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: strict(value) for name, value in schema.items()}
    if "properties" in schema and isinstance(schema["properties"], dict):
        open_ended = schema.get("x-kubernetes-preserve-unknown-fields") or schema.get("x-kubernetes-embedded-resource")
        if not open_ended and "additionalProperties" not in schema:
            closed["additionalProperties"] = False
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    return closed


def schemas_of(paths):
    found = {}
    for path in paths:
        for document in yaml.safe_load_all(open(path)):
            if not document or document.get("kind") != "CustomResourceDefinition":
                continue
            spec = document["spec"]
            for version in spec["versions"]:
                schema = strict(version["schema"]["openAPIV3Schema"])
                # metadata is checked by the API server itself.
                schema["properties"].update({name: {} for name in ("apiVersion", "kind", "metadata")})
                found[f"{spec['group']}/{version['name']}", spec["names"]["kind"]] = schema
    return found


def main():
    at = sys.argv.index("--")
    schemas = schemas_of(path for path in sys.argv[1:at] if path != "--crd")
    failed = False
    for path in sys.argv[at + 1 :]:
        for document in yaml.safe_load_all(open(path)):
            if not document:
                continue
            name = f"{document['kind']} {document['metadata']['name']}"
            schema = schemas.get((document["apiVersion"], document["kind"]))
            try:
                if schema is None:
                    kubernetes_validate.validate(document, KUBERNETES, strict=True)
                else:
                    jsonschema.validate(document, schema)
                print(f"valid {name}")
            except Exception as error:  # each library has its own
                failed = True
                print(f"INVALID {name} in {path}: {type(error).__name__}: {str(error)[:600]}")
    sys.exit(1 if failed else 0)


main()
