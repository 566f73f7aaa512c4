"""Values between DSPy and a session: arguments and results of tools, variables, and the arguments of SUBMIT."""

from __future__ import annotations

import asyncio
import inspect
import json
import keyword
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from dspy.adapters.types.tool import Tool
from dspy.primitives.code_interpreter import CodeExecutionError, CodeInterpreterError
from pydantic_core import PydanticSerializationError, to_jsonable_python

from assay import TooLargeError

from ._interpreter import Interpreter

#: Allowed annotations of SUBMIT's parameters.
SIMPLE = ("str", "int", "float", "bool", "list", "dict", "NoneType")

# Without imports, since the policy may restrict them.
_SUBMIT = """
class _AssaySubmitted(BaseException):
    pass


def _assay_plain(value):
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    if isinstance(value, dict):
        return {k if isinstance(k, str) else str(k): _assay_plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_assay_plain(v) for v in value]
    if isinstance(value, (set, frozenset)):
        try:
            return _assay_plain(sorted(value))
        except TypeError:
            return _assay_plain(list(value))
    if hasattr(type(value), "__dataclass_fields__"):
        return {name: _assay_plain(getattr(value, name)) for name in type(value).__dataclass_fields__}
    for method in ("model_dump", "tolist", "isoformat"):
        if callable(getattr(type(value), method, None)):
            return _assay_plain(getattr(value, method)())
    kind = type(value).__name__
    raise TypeError("SUBMIT takes text, numbers, lists and dicts; there is no JSON of %s" % kind)


def _assay_submit(outputs, dumps=safe_json_dumps):
    globals()["_assay_submitted"] = dumps(_assay_plain(outputs))
    raise _AssaySubmitted("the run is over")


"""


def submit_code(fields: Iterable[Mapping[str, Any]] | None) -> str:
    """The code that defines SUBMIT, with a parameter for each output."""
    names: list[str] = []
    parameters: list[str] = []
    for field in fields or ({"name": "output"},):
        name, kind = field.get("name"), field.get("type")
        if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name) or name in names:
            raise CodeInterpreterError(f"output_fields: {name!r} is no name for a field, or there twice")
        names.append(name)
        annotation = f": {'None' if kind == 'NoneType' else kind}" if kind in SIMPLE else ""
        parameters.append(name + annotation)
    given = ", ".join(f'"{n}": {n}' for n in names)
    return f"{_SUBMIT}def SUBMIT({', '.join(parameters)}):\n    _assay_submit({{{given}}})\n"


def submitted(interpreter: Interpreter) -> Any:
    """The last arguments of SUBMIT."""
    try:
        text = interpreter.get("_assay_submitted")
    except TooLargeError as e:
        raise CodeExecutionError("What SUBMIT was given is larger than 16 MiB of JSON") from e
    try:
        return json.loads(text)
    except (TypeError, ValueError) as e:
        raise CodeExecutionError("the arguments of SUBMIT have changed since the call") from e


def called(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Calls a tool with keywords where possible, and awaits its result if needed."""
    place, names = by_name(function, args, kwargs)
    result = function(*place, **names)
    return asyncio.run(_awaited(result)) if inspect.isawaitable(result) else result


async def _awaited(result: Any) -> Any:
    return await result


def by_name(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Arguments by the names of the function's parameters. Arguments without a possible name stay positional."""
    if not args:
        return [], dict(kwargs)
    try:
        described = cast("Any", function).func if isinstance(function, Tool) else function
        bound = inspect.signature(described).bind(*args, **kwargs)
    except ValueError:  # it has no signature
        return list(args), dict(kwargs)
    kinds = {name: p.kind for name, p in bound.signature.parameters.items()}
    if inspect.Parameter.VAR_POSITIONAL in (kinds[name] for name in bound.arguments):
        return list(args), dict(kwargs)
    place: list[Any] = []
    names: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        if kinds[name] is inspect.Parameter.POSITIONAL_ONLY:
            place.append(value)
        elif kinds[name] is inspect.Parameter.VAR_KEYWORD:
            names.update(value)
        else:
            names[name] = value
    return place, names


def plain(value: Any, strict: str | None = None) -> Any:
    """A value as JSON. Other values become text; with strict, which is its name, they are refused."""
    if isinstance(value, float) and not math.isfinite(value):
        return value if strict is not None else str(value)
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    if isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value).items()
        return {k if isinstance(k, str) else str(k): plain(v, strict) for k, v in items}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return plain(cast("Any", value)._asdict(), strict)
    if isinstance(value, (list, tuple)):
        return [plain(v, strict) for v in cast("Sequence[Any]", value)]
    if isinstance(value, (set, frozenset)):
        return plain(_ordered(cast("Iterable[Any]", value)), strict)
    try:
        return plain(to_jsonable_python(value), strict)
    except (PydanticSerializationError, RecursionError, UnicodeDecodeError, ValueError):
        if strict is not None:
            raise CodeInterpreterError(f"{strict}: Unsupported value type: {type(value).__name__}") from None
        return str(value)


def _ordered(values: Iterable[Any]) -> list[Any]:
    values = list(values)
    try:
        return sorted(values)
    except TypeError:
        return values
