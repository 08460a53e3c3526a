"""The estimator: `synthesize` with the interface of scikit-learn."""

import inspect
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import sklearn
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, check_random_state

from trigmech._validate import numbers
from trigmech.distribution import Distribution
from trigmech.domain import Domain
from trigmech.errors import InputError, shown
from trigmech.evaluation.distances import evaluate, total_variations
from trigmech.mechanisms.base import Mechanism
from trigmech.mechanisms.moment import default_workload
from trigmech.mechanisms.table import TableMechanism
from trigmech.privacy.budget import Budget
from trigmech.privacy.ledger import Ledger
from trigmech.privacy.ledger_file import LedgerFile
from trigmech.privacy.ledger_server import Server, is_address
from trigmech.results import Synthesis
from trigmech.schema.schema import Column, Schema
from trigmech.synthesis import synthesize
from trigmech.tables.frames import collected, column_names, like, without_names
from trigmech.workload import GaussianKernels
from trigmech.workload.family import answerable

CONTAINERS = ("default", "pandas", "polars")
SCORE_QUERIES = 1_000


class Synthesizer(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A sampler with scikit-learn's conventions: ``fit`` releases a table once, ``sample`` draws synthetic rows.

    Parameters
    ----------
    schema : Schema or "cube"
        The public description of the table, which ``fit`` needs. "cube": every column is a number with the public
        bounds -1 and 1, to which all values are clipped.
    epsilon, delta : float
        The privacy budget of one call of ``fit``.
    mechanism : Mechanism, optional
        Default: :class:`trigmech.TableMechanism`.
    target : str, optional
        The name of a column that models will predict from the others: ``TableMechanism(target=target)``.
    ledger : path, address or LedgerFile, optional
        The data set's ledger; every ``fit`` is charged there, and refused if it would exceed the total. Without it
        the budgets of several fits are not added up: a search over options that fits one table again and again
        spends a budget each time.
    random_state : int, RandomState, Generator or None
        None, the default, for a private release. Any other value makes a repeatable *simulation*, which is not private.

    Attributes
    ----------
    synthesis_ : Synthesis
        All that was released.
    ledger_ : Ledger
        The charges of the release.
    n_features_in_ : int
        Columns of the table; it can have more than the schema names.
    feature_names_in_ : ndarray of str
        The names of the table's columns, only if it had names.

    Notes
    -----
    Privacy: that of :func:`trigmech.synthesize`. It covers this estimator alone. Steps before it in a pipeline that
    learn from the table, such as scalers, and searches that fit again and again without a shared ledger, are not
    covered. Cost: likewise.

    A dataframe whose names are not text, such as pandas's default numbers, counts as an array.

    Examples
    --------
    >>> import numpy as np, trigmech as tm
    >>> X = np.random.default_rng(1).uniform(-1, 1, (500, 3))
    >>> model = tm.Synthesizer(schema="cube", epsilon=1.0, random_state=1).fit(X)
    >>> model.sample(4).shape
    (4, 3)
    """

    def __init__(self, schema: Schema | Literal["cube"] | None = None, *, epsilon: float = 1.0, delta: float = 0.0,
                 mechanism: Mechanism | None = None, target: str | None = None,
                 ledger: str | Path | LedgerFile | None = None, random_state: Any = None) -> None:
        self.schema = schema
        self.epsilon = epsilon
        self.delta = delta
        self.mechanism = mechanism
        self.target = target
        self.ledger = ledger
        self.random_state = random_state

    @property
    def ledger(self) -> str | Path | LedgerFile | None:
        return self.__dict__["ledger"]

    @ledger.setter
    def ledger(self, given: str | Path | LedgerFile | None) -> None:
        # An estimator shows its options to everybody, so one with a password is refused at once.
        if is_address(given):
            Server(str(given), 0.0)
        self.__dict__["ledger"] = given

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """Return the options that differ from the defaults, a schema as its size, and the release."""
        if not isinstance(self.schema, Schema):
            text = str(super().__repr__(N_CHAR_MAX))
        else:
            usual = {name: option.default for name, option in inspect.signature(type(self)).parameters.items()}
            options = {name: value for name, value in self.get_params(deep=False).items() if name != "schema"
                       and repr(value) != repr(usual.get(name))}
            text = ", ".join([f"schema=<{self.schema.d} columns>", *(f"{name}={value!r}" for name, value in
                                                                     options.items())])
            text = f"{type(self).__name__}({text})"
        return f"{text}: fitted, {self.synthesis_!r}" if hasattr(self, "synthesis_") else text

    def fit(self, X: Any, y: Any = None) -> Self:
        """Release a table.

        Parameters
        ----------
        X : dataframe or array_like (n, d), private
        y : ignored
            There for pipelines.

        Raises
        ------
        InputError, BudgetError
            If there is no schema, and as :func:`trigmech.synthesize`.
        """
        X, names = _table(X)
        if self.schema is None:
            raise InputError("a Synthesizer needs a schema with public bounds, as in Synthesizer(Schema([Column('age', "
                             "0, 120)])), because bounds that are read off the table are not private. If the values of "
                             "every possible table lie in [-1, 1], give schema='cube'")
        if isinstance(self.schema, Schema):
            schema = self.schema
        elif not (isinstance(self.schema, str) and self.schema == "cube"):
            raise InputError(f"schema must be a Schema or 'cube', not {shown(self.schema)}")
        elif names is None:
            X = _array(X)
            schema = Schema.cube(X.shape[1])
        else:
            schema = Schema(Column(name, -1.0, 1.0) for name in names)
        if self.target is not None and self.mechanism is not None:
            raise InputError("give a target or a mechanism, not both: TableMechanism(target=...) has both")
        mechanism = self.mechanism if self.target is None else TableMechanism(target=self.target)
        made = synthesize(X, schema, Budget(self.epsilon, self.delta), mechanism, _generator(self.random_state),
                          ledger=self.ledger)
        self.synthesis_: Synthesis = made
        self.ledger_: Ledger = made.ledger
        self.n_features_in_ = schema.d if names is None else len(names)
        self.__dict__.pop("feature_names_in_", None)
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        return self

    def sample(self, n_samples: int | None = None, random_state: Any = None) -> Any:
        """Return synthetic rows.

        Parameters
        ----------
        n_samples : int, optional
            The number of rows. Default: the number of rows of the table.
        random_state : int, RandomState, Generator or None
            The seed of the draw; any seed is fine here.

        Returns
        -------
        dataframe or ndarray (n_samples, d)
            A table of the fitted type, unless ``set_output`` or scikit-learn's ``transform_output`` chose one.

        Raises
        ------
        NotFittedError
            Before ``fit``.
        InputError
            If an argument is not such a number.
        """
        check_is_fitted(self)
        made, rng = self.synthesis_, _generator(random_state)
        chosen = getattr(self, "_sklearn_output_config", {"transform": sklearn.get_config()["transform_output"]})
        container = chosen["transform"]
        if container == "default":
            return made.sample(n_samples, rng)
        columns = made.columns(n_samples, rng)
        return like(container, tuple(columns), list(columns.values()))

    def score(self, X: Any, y: Any = None) -> float:
        """Return how near the synthetic distribution's answers are to a table's: NOT PRIVATE, for public or test data.

        The score is computed from the exact rows of X, and no budget covers it. If the table is private, do not publish
        the score or anything that was chosen by it, such as the best option of a ``GridSearchCV``. Each ``fit`` of
        such a search spends its own budget, and the guarantee of the refitted estimator is for its last fit alone.

        Parameters
        ----------
        X : dataframe or array_like (n, d), private
            Rows of any table; it is better to give rows that were not fitted.
        y : ignored
            There for searches.

        Returns
        -------
        float, private
            Minus the mean of several errors. For columns of numbers, these are the largest absolute errors of each part
            of the default workload of kernels and second moments. For each other column, it is the total variation of
            its frequencies.
            A number of at most 0; higher is better.

        Raises
        ------
        NotFittedError
            Before ``fit``.
        InputError
            If X does not fit the schema.

        Notes
        -----
        Privacy: not private, see above. Cost: 1000 queries of each kind at all rows and all synthetic points.
        """
        check_is_fitted(self)
        X, names = _table(X)
        made = self.synthesis_
        if names is None and not made.schema.domain.groups:
            X = _array(X)
            if X.shape[1] != made.schema.d:
                # In scikit-learn's words.
                raise InputError(f"X has {X.shape[1]} features, but {type(self).__name__} is expecting {made.schema.d} "
                                 "features as input")
        rows = made.schema.to_cube(X)
        return -float(np.mean(_errors(made.schema.domain, rows, made.distribution)))

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Return the names of the columns that :meth:`sample` returns."""
        check_is_fitted(self)
        schema = self.synthesis_.schema
        return np.array([*([schema.person] if schema.person else []), *schema.table_names], dtype=object)

    def set_output(self, *, transform: str | None = None) -> Self:
        """Choose what ``sample`` returns: "default" (as fitted), "pandas" or "polars"; None leaves it."""
        if transform is not None and transform not in CONTAINERS:
            raise InputError(f"transform must be one of {', '.join(CONTAINERS)} or None, not {shown(transform)}")
        if transform is not None:
            # The name that scikit-learn's clone takes over.
            self._sklearn_output_config = {"transform": transform}
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self.random_state is None
        if isinstance(self.schema, Schema):
            columns = self.schema.columns
            tags.input_tags.allow_nan = any(column.missing != "refuse" for column in columns)
            tags.input_tags.categorical = any(column.categories is not None for column in columns)
            tags.input_tags.string = any(column.is_text for column in columns)
        return tags


def _table(table: Any) -> tuple[Any, tuple[str, ...] | None]:
    """Return a table and the names of its columns, or None if they are not text, as pandas's default numbers."""
    if sparse.issparse(table):
        raise InputError("the table is sparse; sparse data is not supported, give a dense array or a dataframe")
    table = collected(table)
    names = column_names(table)
    if names is None or all(isinstance(name, str) for name in names):
        return table, names
    if any(isinstance(name, str) for name in names):
        raise InputError("the names of the table's columns must all be text, or must all be of other types")
    return without_names(table), None


def _array(table: Any) -> Any:
    """Return a table without names as an array (n, d) of numbers, or of objects that may be numbers."""
    if not (isinstance(table, np.ndarray) and table.dtype.kind == "O" and table.ndim == 2):
        if getattr(getattr(table, "dtype", None), "kind", "") == "c":
            raise InputError("Complex data not supported: the table must be of real numbers")
        table = numbers("the table", table, "n", "d")
    # In scikit-learn's words, which its users and tools look for.
    if table.shape[1] == 0:
        raise InputError(f"0 feature(s) (shape={table.shape}) while a minimum of 1 is required.")
    if table.shape[0] == 1:
        raise InputError("the table has one row, n_samples = 1; a release needs at least 2")
    return table


def _errors(domain: Domain, rows: NDArray[np.float64], distribution: Distribution) -> list[float]:
    """Return the largest error of each part of the default workload, and each group's total variation; private."""
    found: list[float] = []
    numbers = list(domain.numbers)
    if numbers:
        points = Distribution(distribution.points[:, numbers], distribution.weights)
        _, *others = default_workload(len(numbers)).members
        for family in (GaussianKernels(len(numbers), seed=0, n_queries=SCORE_QUERIES), *others):
            found += evaluate(answerable(family), rows[:, numbers], points).worst_absolute.tolist()
    if domain.groups:
        found += total_variations(domain, rows, distribution)[0].tolist()
    return found


def _generator(random_state: Any) -> np.random.Generator | None:
    """Return a generator for a seed in any of scikit-learn's forms, or None for None."""
    if random_state is None or isinstance(random_state, np.random.Generator):
        return random_state
    try:
        state = check_random_state(random_state)
    except ValueError:
        raise InputError("random_state must be None, an integer from 0 to 2^32 - 1, a RandomState or a Generator, not "
                         f"{random_state!r}") from None
    return np.random.default_rng(state.randint(2**32, size=4, dtype=np.uint64))
