# SPDX-License-Identifier: Apache-2.0
"""pytest plugin: models on boards in tests.

    def test_digit(mlf_model):
        model = mlf_model("digits.tar")
        assert model.infer(IMAGE)[0].argmax() == 3

``pytest --mlf-board mps2-an386 --mlf-board host`` runs it on both. Nothing of the SDK is imported before a
test asks for a board. A board that died is not tried again: its other tests are skipped with the reason.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mlf_sdk.pipeline.declare import Option, Stage, flag_of, option_of
from mlf_sdk.pipeline.request import Request
from mlf_sdk.targets.boards import DEFAULT_BOARD

if TYPE_CHECKING:
    from mlf_sdk.pipeline.opentarget import OpenTarget
    from mlf_sdk.wire.session import Session

_PACKAGE = Path(__file__).parent
_POOL: pytest.StashKey[_Pool] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the group ``mlf``."""
    group = parser.getgroup("mlf", "models on boards (mlf-sdk)")
    group.addoption(
        "--mlf-board",
        action="append",
        default=[],
        metavar="NAME",
        help=f"Board to run tests with models on; may be repeated (default: {DEFAULT_BOARD}).",
    )
    group.addoption(
        "--mlf-port",
        action="append",
        default=[],
        metavar="[BOARD=]PORT",
        help="Where the board answers that holds the model already; without it the board is emulated.",
    )
    group.addoption(
        "--mlf-archive",
        metavar="FILE",
        help="Archive of mlf_session and mlf_model() where no marker names one.",
    )
    for field in _request_fields():
        _add_option(group, field)


def _request_fields() -> list[dataclasses.Field[Any]]:
    """Fields of a request that decide how a model is built and opened."""
    own = ("board", "port", "module")  # these may differ from test to test
    return [
        field
        for field in dataclasses.fields(Request)
        if field.name not in own and not option_of(field).hidden
        if (option_of(field).stage or Stage.JUDGE) <= Stage.OPEN
    ]


def _add_option(group: pytest.OptionGroup, field: dataclasses.Field[Any]) -> None:
    declared: Option = option_of(field)
    kind = next((t for t in (float, int) if t.__name__ in str(field.type)), str)
    flag = f"--mlf-{flag_of(field).removeprefix('--')}"
    if "bool" in str(field.type):
        group.addoption(flag, dest=f"mlf_{field.name}", action="store_true", default=None, help=declared.help)
        return
    group.addoption(
        flag,
        dest=f"mlf_{field.name}",
        type=kind,
        action="append" if "tuple" in str(field.type) else "store",
        choices=declared.choices or None,
        metavar=None if declared.choices else declared.metavar or None,
        help=declared.help.replace("%", "%%"),
    )


def _request(config: pytest.Config) -> Request:
    """Request with the options of this session of pytest; defaults come from mlf.toml."""
    from mlf_sdk.pipeline.config import read_config

    given = {field.name: config.getoption(f"mlf_{field.name}") for field in _request_fields()}
    unset = [name for name, value in given.items() if value in (None, [])]
    known = {name: value for name, value in given.items() if name not in unset}
    return Request().replace(
        **{name: tuple(value) if isinstance(value, list) else value for name, value in known.items()},
        **read_config(config.rootpath).defaults_for(unset),
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line(
        "markers", "mlf(archive, module=None): the archive of mlf_session and mlf_model()"
    )


def pytest_report_header(config: pytest.Config) -> str | None:
    """Name the boards, where they were chosen."""
    boards = config.getoption("--mlf-board")
    return f"mlf boards: {', '.join(boards)}" if boards else None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test that needs a board on every board."""
    if "mlf_board" not in metafunc.fixturenames:
        return
    own = [m for m in metafunc.definition.iter_markers("parametrize") if "mlf_board" in _names(m.args[0])]
    if not own:
        boards = list(dict.fromkeys(metafunc.config.getoption("--mlf-board"))) or [DEFAULT_BOARD]
        metafunc.parametrize("mlf_board", boards, indirect=True, scope="session")


def _names(argnames: str | list[str] | tuple[str, ...]) -> list[str]:
    return [n.strip() for n in argnames.split(",")] if isinstance(argnames, str) else list(argnames)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[Any]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the board's console output to the report, and record a board that died.

    A failure is shown at the line of the test: frames of the SDK are left out.
    """
    pool = item.stash.get(_POOL, None)
    if pool is not None and call.excinfo is not None:
        _hide_own_frames(call.excinfo.value)
    report = yield
    if pool is None:
        return report
    if call.excinfo is not None:
        pool.note_failure(call.excinfo.value)
    text = pool.take_console()
    if text:
        report.sections.append((f"Captured console {call.when} ({pool.board})", text))
    return report


def _hide_own_frames(error: BaseException) -> None:
    """Mark the modules of the SDK that an error passed through: pytest looks at a frame's globals."""
    trace = error.__traceback__
    while trace is not None:
        if _PACKAGE in Path(trace.tb_frame.f_code.co_filename).parents:
            trace.tb_frame.f_globals["__tracebackhide__"] = True
        trace = trace.tb_next


@pytest.fixture(scope="session")
def mlf_board(request: pytest.FixtureRequest) -> str:
    """Name of the board that the test runs on."""
    return str(getattr(request, "param", DEFAULT_BOARD))


@pytest.fixture(scope="session")
def _mlf_pool(mlf_board: str, request: pytest.FixtureRequest) -> Iterator[_Pool]:
    made = _request(request.config).replace(
        board=mlf_board, port=_port_of(mlf_board, request.config.getoption("--mlf-port"))
    )
    with ExitStack() as stack:
        yield _Pool(made, stack)


@pytest.fixture
def mlf_model(_mlf_pool: _Pool, request: pytest.FixtureRequest) -> Callable[..., BoardModel]:
    """A factory: ``mlf_model("digits.tar")`` gives the model on the board, with ``infer(inputs)``.

    A path is looked for beside the test, then in the current folder. Without one, the marker ``mlf`` or the
    option ``--mlf-archive`` names it. The board is started once for all tests.
    """
    request.node.stash[_POOL] = _mlf_pool
    _mlf_pool.begin(request.node.nodeid)

    def deploy(archive: str | Path | None = None, *, module: str | None = None) -> BoardModel:
        path, chosen = _archive_of(request, archive, module)
        return _mlf_pool.model(path, chosen)

    return deploy


@pytest.fixture
def mlf_session(mlf_model: Callable[..., BoardModel]) -> Session:
    """An open session with the board that holds the model of the marker ``mlf`` or of ``--mlf-archive``."""
    return mlf_model().session


class BoardModel:
    """A model on the board of a test.

    Attributes:
        session: the open session.
        model: what was promised about the model: inputs, outputs, memory.
        board: name of the board.
    """

    def __init__(self, pool: _Pool, key: _Key, opened: OpenTarget) -> None:
        self._pool = pool
        self._key = key
        self._opened = opened
        self.session = opened.session
        self.model = opened.model
        self.board = pool.board

    def infer(self, inputs: Any) -> list[Any]:  # noqa: ANN401 (arrays, without importing numpy here)
        """Run one inference, or a batch along one extra leading axis, and return every output.

        Args:
            inputs: an array for each input, in order, or by name; one array where there is one input.
        """
        __tracebackhide__ = True
        self._pool.check(self._key)
        try:
            return self._opened.infer(inputs, timeout_s=self._pool.request.timeout_s)
        except Exception as error:
            self._pool.note_death(self._key, error)
            raise


_Key = tuple[Path | str, str | None]


class _Pool:
    """Models that run on one board: each is started on first use, and never again after it died."""

    def __init__(self, request: Request, stack: ExitStack) -> None:
        self.request = request
        self.board = str(request.board)
        self._stack = stack
        self._models: dict[_Key, BoardModel] = {}
        self._dead: dict[_Key, str] = {}
        self._last: _Key | None = None
        self.test = ""
        self._console: list[str] = []

    def begin(self, test: str) -> None:
        """A test begins to use the board."""
        self.test = test
        self._last = None

    def model(self, archive: Path, module: str | None) -> BoardModel:
        """The model of an archive, deployed at the first call."""
        key = (archive, module)
        self._last = key
        self.check(key)
        if key not in self._models:
            try:
                self._models[key] = self._deploy(key, archive, module)
            except Exception as error:
                self.note_death(key, error)
                raise
        return self._models[key]

    def check(self, key: _Key) -> None:
        """Skip the test if its board has died."""
        reason = self._dead.get(self._domain(key))
        if reason is not None:
            pytest.skip(f"the board {self.board} died: {reason}")

    def note_death(self, key: _Key, error: BaseException) -> None:
        """Record the reason not to use the board again; a negative answer does not count as death."""
        from mlf_sdk.errors import TargetError, ToolError
        from mlf_sdk.wire.errors import DeviceError

        if isinstance(error, TargetError | ToolError) and not isinstance(error, DeviceError):
            reason = f"{error.what.splitlines()[0]} (in {self.test})"
            self._dead.setdefault(self._domain(key), reason)

    def note_failure(self, error: BaseException) -> None:
        """Remember the death of a board that the test met in its session."""
        if self._last is not None:
            self.note_death(self._last, error)

    def take_console(self) -> str:
        """Return and clear the board's console output since the last call."""
        text = "".join(self._console)
        self._console.clear()
        return text

    def _domain(self, key: _Key) -> _Key:
        """Failure domain of a model: its board on a port; an emulated board is started for each archive."""
        shared = self.request.port is not None or ":" in self.board
        return (self.request.port or self.board, None) if shared else key

    def _deploy(self, key: _Key, archive: Path, module: str | None) -> BoardModel:
        from mlf_sdk.pipeline.pipeline import Pipeline

        request = self.request.replace(source=(str(archive),), module=module)
        opened = self._stack.enter_context(Pipeline().open(request, self._console.append))
        return BoardModel(self, key, opened)


def _port_of(board: str, given: list[str]) -> str | None:
    """The port of a board: ``BOARD=PORT``, or ``PORT`` for every board."""
    named = [text.split("=", 1)[1] for text in given if text.startswith(f"{board}=")]
    plain = [text for text in given if "=" not in text]
    return next(iter([*named, *plain]), None)


def _archive_of(
    request: pytest.FixtureRequest, archive: str | Path | None, module: str | None
) -> tuple[Path, str | None]:
    if archive is None:
        marker = request.node.get_closest_marker("mlf")
        if marker is not None and (marker.args or "archive" in marker.kwargs):
            archive = marker.args[0] if marker.args else marker.kwargs["archive"]
            module = module or marker.kwargs.get("module")
        else:
            archive = request.config.getoption("--mlf-archive")
    if archive is None:
        pytest.fail(
            "no archive: mlf_model(FILE), @pytest.mark.mlf(FILE) or --mlf-archive FILE", pytrace=False
        )
    beside = request.path.parent / archive
    return (beside if beside.exists() else Path(archive)).resolve(), module
