"""A persistent bash on a terminal in a sandbox, which SWE-ReX calls a session."""

from __future__ import annotations

import codecs
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterable

from swerex.exceptions import (
    BashIncorrectSyntaxError,
    CommandTimeoutError,
    NoExitCodeError,
    NonZeroExitCodeError,
    SessionNotInitializedError,
)
from swerex.runtime.abstract import BashAction, BashInterruptAction, BashObservation, CreateBashSessionRequest

from .._sync._process import Process
from .._sync._sandbox import Sandbox

RELAY = """
import fcntl, os, pty, select, struct, termios
pid, terminal = pty.fork()
if pid == 0:
    mode = termios.tcgetattr(0)
    mode[3] &= ~termios.ECHO
    termios.tcsetattr(0, termios.TCSANOW, mode)
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    os.execvp("bash", ["bash"])
os.set_blocking(terminal, False)
waiting = b""
while True:
    sources = [terminal] if len(waiting) > 1 << 20 else [0, terminal]
    readable, writable, _ = select.select(sources, [terminal] if waiting else [], [])
    if writable:
        waiting = waiting[os.write(terminal, waiting[:1024]):]
    if terminal in readable:
        try:
            data = os.read(terminal, 65536)
        except OSError:
            break
        while data:
            data = data[os.write(1, data):]
    if 0 in readable:
        data = os.read(0, 65536)
        if not data:
            break
        waiting += data
"""
"""Runs bash on a terminal and relays its input and output."""

START = 60.0
"""Seconds that bash may take to start."""

LEAST = 1.0
"""Least seconds for an interrupt: a request may take longer than the interrupted command."""

REST = 3.0
"""Seconds to wait for the end of a command after an expected text."""

MOST = 64 << 20
"""Most characters of an output; of a longer one, the beginning and the end are kept."""

WAIT = 2.0
"""Seconds of one wait for output; then the session checks whether the caller has gone."""

ESCAPES = re.compile(r"\x1B[@-_][0-?]*[ -/]*[@-~]")
PLAIN = re.compile(rb"[^A-Za-z0-9 _./:=+,@%^-]")
INTERRUPT, SUSPEND = b"\x03", b"\x1a"


class BashSession:
    """One bash. Its actions run one after another; another thread may interrupt them.

    gone() reports whether the caller has gone: then a wait ends, and the command continues.
    """

    def __init__(self, sandbox: Sandbox, request: CreateBashSessionRequest) -> None:
        self._sandbox = sandbox
        self._request = request
        self._word = f"PROMPT{uuid.uuid4().hex[:12]}"
        self._prompt = rf"{self._word}:(\d+):"
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        self._text = ""
        self._lock = threading.Lock()
        self._pending = False  # a line was sent whose prompt was not seen yet
        self._ended = False
        self._started: Process | None = None

    @property
    def _process(self) -> Process:
        if self._started is None:
            raise SessionNotInitializedError("shell not initialized: its session is being created")
        return self._started

    def start(self, gone: Callable[[], bool]) -> str:
        """Starts bash, runs its start-up files, and returns their output.

        Raises:
            CommandTimeoutError: it takes too long.
            OSError: the image has no python3.
        """
        self._started = self._sandbox.spawn(
            ["python3", "-c", RELAY], stdin=True, env={"TERM": "dumb", "PS1": "", "PS2": "", "PS0": ""}
        )
        prompt = f"""'PS1="{self._word}:$?:"'"""
        self._send(f"export PS0= PS2= PROMPT_COMMAND={prompt}")
        self._expect([], START, gone)
        if not self._request.startup_source:
            return ""
        self._send(" ; ".join(f"source {_quoted(path)}" for path in self._request.startup_source))
        return self._expect([], max(self._request.startup_timeout, LEAST), gone)[0]

    def close(self) -> None:
        """Ends bash and all of its processes."""
        if self._started is not None:
            self._started.kill()

    def run(self, action: BashAction, gone: Callable[[], bool]) -> BashObservation:
        """Runs a command.

        Raises:
            SessionNotInitializedError: bash has ended before.
            BashIncorrectSyntaxError: the command is invalid.
            CommandTimeoutError: the time is over; the command continues, and can be interrupted.
            NonZeroExitCodeError, NoExitCodeError: check is "raise", and its exit code is not 0, or unknown.
        """
        with self._lock:
            if self._ended:
                raise SessionNotInitializedError("bash has ended in this session: close it, and create another one")
            if action.is_interactive_command or action.is_interactive_quit:
                return self._interact(action, gone)
            self._check_syntax(action.command)
            self._send(f"eval {_quoted(action.command)}")
            output, expected, code = self._expect(action.expect, action.timeout, gone, action.command)
            if self._pending and action.check != "ignore":  # after an expected text, it may end soon
                output, code = self._rest(output, action, gone)
            return self._judged(action, BashObservation(output=output, exit_code=code, expect_string=expected))

    def interrupt(self, action: BashInterruptAction, gone: Callable[[], bool]) -> BashObservation:
        """Interrupts the command as Control-C does. If that has no effect, it is suspended and killed.

        Raises:
            CommandTimeoutError: it does not end.
        """
        if self._ended:
            raise SessionNotInitializedError("bash has ended in this session: close it, and create another one")
        most = max(action.timeout, LEAST)
        for _ in range(max(action.n_retry, 1)):
            self._write(INTERRUPT)
            if (seen := self._interrupted(action.expect, most, gone)) is not None:
                return seen
        self._write(SUSPEND)
        if self._interrupted([], most, gone) is not None:
            with self._lock:
                self._send("kill -9 %% 2> /dev/null; wait %% 2> /dev/null")
                return self._settled(*self._expect([], most, gone)[:2], gone)
        raise CommandTimeoutError("the session cannot be interrupted: close it, and create another one")

    def _interrupted(self, expect: list[str], most: float, gone: Callable[[], bool]) -> BashObservation | None:
        if not self._lock.acquire(timeout=most):
            return None
        try:
            if not self._pending and self._text == "" and not expect:
                return self._settled("", self._prompt, gone)  # its caller has seen its end
            output, expected, _ = self._expect(expect, most, gone)
            return self._settled(output, expected, gone) if expected == self._prompt else _observed(output, expected)
        except CommandTimeoutError:
            return None
        finally:
            self._lock.release()

    def _settled(self, output: str, expected: str, gone: Callable[[], bool]) -> BashObservation:
        """Reads up to the last prompt: each Control-C may have produced one."""
        mark = uuid.uuid4().hex
        self._send(f"echo {mark[:8]}''{mark[8:]}")
        more, _, _ = self._expect([mark], START, gone)
        self._expect([], START, gone)
        return _observed(output + re.sub(self._prompt, "", more), expected)

    def _interact(self, action: BashAction, gone: Callable[[], bool]) -> BashObservation:
        """Sends a line to the program on the terminal. It has no exit code."""
        self._send(action.command)
        output, expected, _ = self._expect(action.expect, action.timeout, gone, action.command)
        if action.is_interactive_quit:
            if expected != self._prompt:
                self._expect([], REST, gone)
            self._send("stty -echo")
            self._expect([], START, gone)
        else:
            output = output.lstrip().removeprefix(action.command).strip()
        return BashObservation(output=output, exit_code=0, expect_string=expected)

    def _rest(self, output: str, action: BashAction, gone: Callable[[], bool]) -> tuple[str, int | None]:
        try:
            more, _, code = self._expect([], REST, gone)
            return output + more, code
        except CommandTimeoutError:
            if action.check == "raise":
                raise NoExitCodeError("timeout while getting exit code: the command runs on") from None
            return output, None

    def _judged(self, action: BashAction, seen: BashObservation) -> BashObservation:
        if action.check == "ignore":
            return seen.model_copy(update={"exit_code": None})
        if action.check == "raise" and seen.exit_code != 0:
            text = f"Command {action.command!r} failed with exit code {seen.exit_code}. "
            text += f"Here is the output:\n{seen.output!r}"
            raise NonZeroExitCodeError(f"{action.error_msg}: {text}" if action.error_msg else text)
        return seen

    def _check_syntax(self, command: str) -> None:
        checked = self._sandbox.exec(["bash", "-n"], stdin=command.encode("utf-8", "surrogateescape"), timeout=START)
        if checked.exit_code == 0:
            return
        out, err = (s.decode(errors="backslashreplace") for s in (checked.stdout, checked.stderr))
        raise BashIncorrectSyntaxError(
            f"Error (exit code {checked.exit_code}) while checking bash command \n{command!r}\n"
            f"---- Stderr ----\n{err}\n---- Stdout ----\n{out}",
            extra_info={"bash_stdout": out, "bash_stderr": err},
        )

    def _send(self, line: str) -> None:
        self._write(line.encode("utf-8", "surrogateescape") + b"\n")
        self._pending = True

    def _write(self, data: bytes) -> None:
        try:
            self._process.write(data)
        except BrokenPipeError:
            self._ended = True

    def _expect(
        self, expect: Iterable[str], timeout: float | None, gone: Callable[[], bool], command: str = ""
    ) -> tuple[str, str, int | None]:
        """Reads until a prompt or a pattern. Returns the text before it, the match, and the prompt's exit code."""
        named = [(pattern, re.compile(pattern, re.DOTALL)) for pattern in expect]
        prompt = re.compile(self._prompt)
        end = None if timeout is None else time.monotonic() + timeout
        seen = 0
        while True:
            found = [(m, name) for name, p in named if (m := p.search(self._text))]
            if m := prompt.search(self._text, max(0, seen - 100)):
                found.append((m, self._prompt))
            if found:
                return self._take(*min(found, key=lambda f: f[0].start()))
            seen = len(self._text)
            left = WAIT if end is None else min(end - time.monotonic(), WAIT)
            if left <= 0 or gone():
                raise CommandTimeoutError(f"timeout after {timeout} seconds while running command {command!r}")
            self._read(left)

    def _take(self, m: re.Match[str], name: str) -> tuple[str, str, int | None]:
        before, self._text = self._text[: m.start()], self._text[m.end() :]
        code = int(m[1]) if name == self._prompt else None
        if code is not None:
            self._pending = False
        return ESCAPES.sub("", before).replace("\r\n", "\n"), name, code

    def _read(self, most: float) -> None:
        data, _ = self._process.read(wait=most)
        if not data and self._process.exit_code is not None:
            self._ended = True
            left, self._text = self._text, ""
            raise NoExitCodeError(
                f"bash has ended; close the session, and create another one. Its last output: {left!r}"
            )
        self._text += self._decoder.decode(data)
        if len(self._text) > MOST:
            half = MOST // 2
            self._text = f"{self._text[:half]}\n[… cut …]\n{self._text[-half:]}"


def _observed(output: str, expected: str) -> BashObservation:
    return BashObservation(output=output.strip(), exit_code=0, expect_string=expected)


def _quoted(text: str) -> str:
    """A word for bash on one line, with escapes for all characters that a terminal or a history could interpret."""
    data = text.encode("utf-8", "surrogateescape")
    return "$'" + PLAIN.sub(lambda m: b"\\x%02x" % m[0][0], data).decode("ascii") + "'"
