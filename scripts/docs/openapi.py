"""Writes the HTTP reference from the OpenAPI document: an overview, a page for each tag, and the schemas."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

Object = dict[str, Any]

TITLES = {"admin": "Operators"}
METHODS = ("get", "head", "post", "put", "patch", "delete")
# Bounds of a schema, with the words of the reference.
BOUNDS = {
    "default": "default",
    "minimum": "at least",
    "maximum": "at most",
    "minLength": "shortest",
    "maxLength": "longest",
    "minItems": "fewest",
    "maxItems": "most",
    "maxProperties": "most",
}


def pages(doc: Object, examples: Object) -> dict[str, str]:
    """Returns the Markdown of each page by its file name. Examples are by operation."""
    writer = Writer(doc, examples)
    found = {f"{tag['name']}.md": writer.tag(tag) for tag in doc["tags"]}
    return {"index.md": writer.index(), **found, "schemas.md": writer.schemas()}


def title(tag: str) -> str:
    return TITLES.get(tag, tag.capitalize())


class Writer:
    """Writes the pages of one document."""

    def __init__(self, doc: Object, examples: Object) -> None:
        self.doc = doc
        self.examples = examples

    def resolve(self, node: Object) -> Object:
        """Returns the component of a reference, or the node itself."""
        while "$ref" in node:
            _, kind, name = node["$ref"].rsplit("/", 2)
            node = self.doc["components"][kind][name]
        return node

    def operations(self, tag: str | None = None) -> Iterator[tuple[str, str, list[Object], Object]]:
        """Yields method, path, parameters and operation, in the order of the paths."""
        for path, item in sorted(self.doc["paths"].items()):
            for method in METHODS:
                operation = item.get(method)
                if operation and (tag is None or tag in operation["tags"]):
                    shared = item.get("parameters", []) + operation.get("parameters", [])
                    yield method.upper(), path, [self.resolve(p) for p in shared], operation

    def index(self) -> str:
        lines = [
            "# HTTP API",
            "",
            self.doc["info"]["description"],
            "",
            "A dispatcher serves this document at `/openapi.json`.",
            "",
        ]
        for scheme in self.doc["components"]["securitySchemes"].values():
            header = f"`Authorization: {scheme['scheme'].capitalize()} …`"
            lines += [f"**Authentication.** {header}. {scheme.get('description', '')}", ""]
        lines += ["## Operations", "", "| operation | purpose |", "|---|---|"]
        for method, path, _, operation in self.operations():
            address = f"{operation['tags'][0]}.md#{operation['operationId']}"
            lines.append(f"| [`{method} {path}`]({address}) | {cell(operation['summary'])} |")
        return "\n".join(lines) + "\n"

    def tag(self, tag: Object) -> str:
        lines = [f"# {title(tag['name'])}", "", tag.get("description", ""), ""]
        for method, path, parameters, operation in self.operations(tag["name"]):
            lines += [f"## {operation['summary']} {{ #{operation['operationId']} }}", "", f"`{method} {path}`", ""]
            lines += [operation.get("description", ""), ""]
            lines += self.parameters(parameters)
            lines += self.body(operation)
            lines += self.responses(operation)
        return "\n".join(lines) + "\n"

    def parameters(self, parameters: list[Object]) -> list[str]:
        if not parameters:
            return []
        lines = ["| parameter | in | type | |", "|---|---|---|---|"]
        for p in parameters:
            schema = p.get("schema", {})
            text = " ".join(
                [p.get("description", ""), *self.notes(schema, required=p.get("required", False) and p["in"] != "path")]
            )
            lines.append(f"| `{p['name']}` | {p['in']} | {self.type(schema)} | {cell(text)} |")
        return [*lines, ""]

    def body(self, operation: Object) -> list[str]:
        if "requestBody" not in operation:
            return []
        body = self.resolve(operation["requestBody"])
        lines = [f"**Body.** {self.contents(body)} {body.get('description', '')}", ""]
        return lines + example("Example of a body", self.example(operation, "request"))

    def responses(self, operation: Object) -> list[str]:
        lines = ["| status | body | |", "|---|---|---|"]
        for status, response in operation["responses"].items():
            response = self.resolve(response)
            label = "other" if status == "default" else status
            lines.append(f"| {label} | {cell(self.contents(response))} | {cell(response.get('description', ''))} |")
        return [*lines, "", *example("Example of an answer", self.example(operation, "response"))]

    def example(self, operation: Object, part: str) -> Any:
        return self.examples.get(operation["operationId"], {}).get(part)

    def contents(self, node: Object) -> str:
        """Returns the types of a body, each with its media type unless that is JSON."""
        found: list[str] = []
        for media_type, media in node.get("content", {}).items():
            kind = self.type(media.get("schema", {}))
            found.append(kind if media_type == "application/json" else f"{kind} as `{media_type}`")
        return ", or ".join(found)

    def type(self, schema: Object) -> str:
        """Returns the name of a schema's type, with links to the schemas of objects."""
        if "$ref" in schema:
            name = schema["$ref"].rsplit("/", 1)[1]
            return f"[{name}](schemas.md#{name})"
        for word in ("oneOf", "anyOf", "allOf"):
            if word in schema:
                return (" and " if word == "allOf" else " or ").join(dict.fromkeys(self.type(s) for s in schema[word]))
        if "enum" in schema:
            return ", ".join(f"`{value(v)}`" for v in schema["enum"] if v is not None)
        kinds = schema.get("type", "any value")
        kind = " or ".join(k for k in kinds if k != "null") if isinstance(kinds, list) else kinds
        if kind == "array":
            return f"array of {self.type(schema.get('items', {}))}"
        if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
            return f"map to {self.type(schema['additionalProperties'])}"
        return f"{kind} ({schema['format']})" if "format" in schema else kind

    def notes(self, schema: Object, required: bool) -> list[str]:
        """Returns the bounds of a value as sentences."""
        found = ["Required."] if required else []
        found += [
            f"{words.capitalize()}: `{json.dumps(schema[key])}`."
            for key, words in BOUNDS.items()
            if schema.get(key) is not None
        ]
        return found

    def schemas(self) -> str:
        lines = ["# Schemas", ""]
        for name, schema in sorted(self.doc["components"]["schemas"].items()):
            lines += [f"## {name} {{ #{name} }}", "", schema.get("description", ""), ""]
            rows = list(self.fields("", schema))
            if rows:
                lines += ["| field | type | |", "|---|---|---|", *rows, ""]
            else:
                lines += [" ".join([f"Type: {self.type(schema)}.", *self.notes(schema, required=False)]), ""]
        return "\n".join(lines) + "\n"

    def fields(self, prefix: str, schema: Object) -> Iterator[str]:
        """Yields a row for each field of an object, and of the objects that are written inside it."""
        for part in schema.get("allOf", []):
            yield from self.fields(prefix, part)
        for name, field in schema.get("properties", {}).items():
            text = " ".join(
                [field.get("description", ""), *self.notes(field, required=name in schema.get("required", []))]
            )
            yield f"| `{prefix}{name}` | {cell(self.type(field))} | {cell(text)} |"
            if "$ref" not in field:
                yield from self.fields(f"{prefix}{name}.", field)
                yield from self.fields(f"{prefix}{name}[].", field.get("items", {}))


def example(heading: str, body: Any) -> list[str]:
    """Returns a folded example of a body; nothing for None."""
    if body is None:
        return []
    text = json.dumps(body, indent=1, ensure_ascii=False)
    return [
        f'??? example "{heading}"',
        "",
        "    ```json",
        *("    " + line for line in text.splitlines()),
        "    ```",
        "",
    ]


def value(v: Any) -> str:
    """Returns a value as a client writes it, but a string without its quotes."""
    return v if v and isinstance(v, str) else json.dumps(v)


def cell(text: str) -> str:
    """Returns a text as one cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")
