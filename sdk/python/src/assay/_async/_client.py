"""The client."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

import httpx

from .. import models
from .._arguments import LabelValue
from .._chunks import MapOptions
from .._config import configured
from .._errors import AssayError, InfraError
from .._grading import Labels, RewardOf, Rewards, Tests
from .._jobs import PolicyLike, Program, job
from .._progress import Progress
from .._result import BRIEF, Result
from .._sessions import FAREWELL
from .._units import Deadline, Seconds
from .._waiting import OnWait, checked
from ._api import AsyncAPI
from ._background import AsyncBackground
from ._batches import AsyncBatch, batch_options
from ._grade import AsyncGrading
from ._map import AsyncMapper
from ._opener import AsyncOpener
from ._run import cancel_job, run
from ._session import AsyncSession
from ._stream import AsyncResultStream
from ._submit import AsyncSubmitter, Future
from ._transport import AsyncTransport
from ._upload import submit

C = TypeVar("C", bound="AsyncClient")


class AsyncClient(AsyncOpener):
    """A client of one fleet, for asyncio. It may be used by any number of tasks, in one event loop after another.

    Args:
        url: address of the fleet; else ASSAY_URL, else http://127.0.0.1:8080.
        token: else ASSAY_TOKEN, else none.
        patience: seconds for which a failed request is repeated, while the fleet cannot be reached or is not ready;
            else ASSAY_PATIENCE (a duration such as 10s), else 30. 0 disables repeats.
        transport: of httpx, in place of the network, for tests.

    The client repeats every request with an unknown result under the same idempotency key, so nothing runs twice.
    Without a timeout, calls wait as long as their jobs take. A program's limits are in its policy.

    Raises:
        ValueError: an argument is no valid address, token or duration.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        patience: Seconds | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._transport = AsyncTransport(configured(url, token, patience), transport)
        self._submitter = AsyncSubmitter(self._transport)
        self._background = AsyncBackground(self._transport)
        self._sessions: weakref.WeakSet[AsyncSession] = weakref.WeakSet()
        self.api = AsyncAPI(self._transport)
        """Every operation of the API, as its document has it."""

    @property
    def url(self) -> str:
        """Address of the fleet."""
        return self._transport.config.url

    async def __aenter__(self: C) -> C:
        self._transport.reopen()  # a client may have several with blocks in turn
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Cancels futures that are not done, with their jobs, ends sessions that it started with a lease, and closes
        connections. Later calls raise ClosedError, until the client is entered by a with statement again."""
        await self._submitter.stop()
        deadline = Deadline(FAREWELL)
        for session in list(self._sessions):
            with contextlib.suppress(AssayError):  # the fleet is unavailable: sessions end by their leases
                await session.leave(deadline)
        await self._background.aclose()
        await self._transport.aclose()

    def __repr__(self) -> str:
        return f"<assay client of {self.url}>"

    async def run(
        self,
        program: Program,
        *,
        language: str | None = None,
        variables: Mapping[str, Any] | None = None,
        stdin: str | None = None,
        files: Mapping[str, str | bytes | Path] | None = None,
        policy: PolicyLike | None = None,
        image: str | None = None,
        name: str | None = None,
        labels: Mapping[str, LabelValue] | None = None,
        spec: Mapping[str, Any] | None = None,
        timeout: Seconds | None = None,
        on_wait: OnWait = "raise",
    ) -> Result:
        """Runs one program and waits for its result. A failed program is a result too: see Result.check.

        Args:
            program: Python code, a command as a list of its words, or a whole job; assay.job has the other arguments.
            timeout: seconds for all of it, queueing included; then the job is canceled. A job that its dead client
                left in the queue expires a minute later; without a timeout, after 24 hours.
            on_wait: of a job that no connected worker can run: "raise" NoWorkerError, "warn" once, or "ignore".

        Raises:
            InfraError: the job did not end by itself, or could not run.
            APIError: the fleet refused the job: InvalidError, AuthError, QuotaError and so on.
            Unreachable: the fleet does not answer.
            Timeout: the timeout is over.
        """
        one = job(
            program, language=language, variables=variables, stdin=stdin, files=files, policy=policy, image=image,
            name=name, labels=labels, spec=spec,
        )  # fmt: skip
        result = await run(self._transport, one, Deadline(timeout), on_wait=checked(on_wait))
        if result.infra:
            raise InfraError(result)
        return result

    def submit(
        self,
        program: Program,
        *,
        language: str | None = None,
        variables: Mapping[str, Any] | None = None,
        stdin: str | None = None,
        files: Mapping[str, str | bytes | Path] | None = None,
        policy: PolicyLike | None = None,
        image: str | None = None,
        name: str | None = None,
        labels: Mapping[str, LabelValue] | None = None,
        spec: Mapping[str, Any] | None = None,
    ) -> Future:
        """Submits one program, and returns a future of its result. The future raises as run does, except NoWorkerError:
        a job that no connected worker can run waits for one, and a warning says so.

        Canceling the future cancels the job. Programs that are submitted within a moment are sent together, so
        there may be many thousands. The fleet ends them a minute after the death of this process.
        """
        one = job(
            program, language=language, variables=variables, stdin=stdin, files=files, policy=policy, image=image,
            name=name, labels=labels, spec=spec,
        )  # fmt: skip
        return self._submitter.submit(one)

    async def submit_batch(
        self,
        jobs: Iterable[Program],
        *,
        name: str | None = None,
        labels: Mapping[str, LabelValue] | None = None,
        label_caps: Mapping[str, int] | None = None,
        defaults: Mapping[str, Any] | None = None,
        callback: Mapping[str, Any] | None = None,
        lease: Seconds | None = None,
        key: str | None = None,
    ) -> AsyncBatch:
        """Submits programs together: all of them are accepted, or none.

        Args:
            jobs: code, commands or whole jobs. From 10,000 jobs or 8 MiB on, they are uploaded in chunks as they come.
                So a broken connection costs one chunk. If the iterable raises, nothing is submitted.
            name: of the batch.
            labels: of the batch; they apply to its jobs too.
            label_caps: the number of jobs with the same value of a label that may run at once.
            defaults: a partial job under every job, such as {"policy": {"wall": "10s"}}.
            callback: the receiver of a request when the batch is done: {"url": …, "secret_ref": …}.
            lease: seconds (or a duration, or a timedelta) without a request after which the batch is canceled. None: it
                always runs to its end. Batch.results and Batch.wait renew the lease.
            key: makes the submit repeatable across processes: the same jobs under the same key are the same batch, and
                an interrupted upload continues.

        Raises:
            InvalidError: a job is invalid; line and field name it, and nothing was submitted.
            ValueError: there is no job.
        """
        options = batch_options(
            name=name, labels=labels, label_caps=label_caps, defaults=defaults, callback=callback, lease=lease
        )
        b = await submit(self._transport, jobs, options, key)
        return AsyncBatch(self._transport, b.id, b)

    def batch(self, id: str) -> AsyncBatch:
        """An existing batch. Does not check that the batch exists."""
        return AsyncBatch(self._transport, id)

    async def batches(self) -> AsyncIterator[models.Batch]:
        """Batches, latest first."""
        before: str | None = None
        while True:
            page = await self.api.list_batches(before=before, limit=100)
            for b in page.batches:
                yield b
            if not page.next:
                return
            before = page.next

    def map(
        self,
        items: Iterable[Program] | AsyncIterable[Program],
        *,
        order: Literal["input", "completed"] = "input",
        on_error: Literal["raise", "return"] = "raise",
        progress: Progress = None,
        key: str | None = None,
        timeout: Seconds | None = None,
        policy: PolicyLike | None = None,
        image: str | None = None,
        defaults: Mapping[str, Any] | None = None,
        name: str | None = None,
        labels: Mapping[str, LabelValue] | None = None,
        label_caps: Mapping[str, int] | None = None,
        fields: Iterable[str] | None = BRIEF,
        lease: Seconds | None = 60.0,
        chunk: int = 1000,
        window: int | None = None,
        on_wait: OnWait = "raise",
        note: Callable[[str], None] | None = None,
    ) -> AsyncResultStream:
        """Runs any number of programs: it takes items as there is room, and yields results.

        Args:
            items: code, commands or whole jobs; any iterable, which is iterated once, in the caller's own thread. If it
                raises, the results raise too, after the results of earlier items. With a key they raise before the
                results of the current chunk, which is not submitted.
            order: "input" yields results in the order of the items, "completed" as they come, without holding any back.
                Result.index and Result.item identify the item.
            on_error: "raise": an item that the fleet refuses (InvalidError and others), or without a known result
                (InfraError), ends the call. "return": it has a result, whose error has the reason. A failed program is
                no error.
            progress: True, or a title, for a bar; or a function, called with the number of finished items, the total,
                and the result.
            key: makes it repeatable: after the death of this process, the same items under the same key (and with the
                same chunk) yield every result once, and nothing runs twice. Without a key, unfinished jobs are canceled
                when the results are closed, and after the lease.
            timeout: seconds for all of it; then Timeout is raised.
            policy, image: of every item without its own; defaults: the same for any field of a job.
            name, labels, label_caps: of the batches of the items.
            fields: of a result; None for all. By default assay.BRIEF.
            lease: seconds for which jobs continue after the death of this process; with a key, there is no lease.
            chunk: items of a batch, which is submitted when it is full. Use 1 if items depend on earlier results.
            window: maximal number of unfinished and waiting items; default four times chunk. With order="input",
                results that wait for their turn are in memory, large ones above 32 MiB in a temporary file.
            on_wait: of jobs that no connected worker can run: "raise" NoWorkerError, "warn" once, or "ignore".
            note: called with the reason why jobs wait, or "", instead of the progress bar.
        """
        common = {"policy": policy, "image": image, **(defaults or {})}
        options = MapOptions(
            order=order, on_error=on_error, key=key, timeout=timeout, fields=fields, chunk=chunk,
            window=window if window is not None else 4 * chunk, name=name, labels=labels, label_caps=label_caps,
            defaults={k: models.to_json(v) for k, v in common.items() if v is not None},
            lease=None if key is not None else lease, on_wait=on_wait, note=note,
        )  # fmt: skip
        return AsyncResultStream(AsyncMapper(self._transport, items, options, progress).results())

    async def grade(
        self,
        solutions: Iterable[str],
        tests: Tests | Iterable[Tests],
        *,
        labels: Labels | None = None,
        reward: RewardOf = "score",
        case_wall: Seconds | None = None,
        match: Literal["python", "json"] | None = None,
        tolerance: float | None = None,
        process: Literal["separate", "shared"] | None = None,
        language: str | None = None,
        fenced: bool = False,
        implied_imports: bool = False,
        policy: PolicyLike | None = None,
        image: str | None = None,
        attempts: int = 3,
        on_error: Literal["raise", "none"] = "raise",
        timeout: Seconds | None = None,
        progress: Progress = None,
        key: str | None = None,
        name: str | None = None,
        label_caps: Mapping[str, int] | None = None,
        chunk: int = 1000,
        on_wait: OnWait = "raise",
    ) -> Rewards:
        """Grades solutions, and returns a list with one reward for each, in their order.

        Args:
            solutions: Python code, one job each. Text that cannot be a program, such as empty text, has the reward 0.0.
            tests: one for all, or one for each, with the fields of the API: see docs/grading.md.
            labels: of each solution, or one dict for all; Rewards.pass_at_k, groups and outcomes group by them.
            reward: "score": weighted share of passed tests; "pass": 1 if all passed, else 0; or a function of a result.
            case_wall: seconds, or a duration such as "2s", for each case and stdio case without a wall.
            match, tolerance: of values of cases. "json" treats tuples as lists, and compares keys as JSON text.
            process: "shared" runs a check in the process of the solution, which could then forge its reward.
            language: of solutions whose tests have none; default Python.
            fenced: solutions are answers of a model; their code is the last Markdown block.
            implied_imports: Python solutions may use common modules, such as math, without an import.
            policy, image: a solution's limits, and its file system.
            attempts: the number of runs of a solution without a verdict. Failures of the fleet never become rewards.
            on_error: for a solution without a verdict after that, and for tests that failed by themselves: "raise", or
                "none" for the reward None. Rewards.infra and Rewards.broken count them.
            timeout: seconds for all of it. The other arguments are those of map.

        Raises:
            InfraError: a solution has no verdict (on_error="raise").
            ProgramError: tests failed by themselves, so no solution could have passed them (on_error="raise").
            Timeout: the timeout is over (on_error="raise").
            UnsendableError: a value of the tests is of a type that cannot be sent.
            ValueError: there are not as many tests, or labels, as solutions.
        """
        grading = AsyncGrading(
            self.map, solutions, tests, labels, reward=reward, attempts=attempts, on_error=on_error, timeout=timeout,
            key=key, case_wall=case_wall, match=match, tolerance=tolerance, process=process, language=language,
            fenced=fenced, implied_imports=implied_imports,
        )  # fmt: skip
        return await grading.rewards(
            progress,
            {
                "policy": policy,
                "image": image,
                "name": name,
                "label_caps": label_caps,
                "chunk": chunk,
                "on_wait": on_wait,
            },
        )

    async def cancel(self, id: str) -> None:
        """Ends a job. A finished job stays as it is."""
        await cancel_job(self._transport, id)
