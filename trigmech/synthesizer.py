"""The estimator: `synthesize` as scikit-learn's users expect it."""

from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, check_random_state

from trigmech.budget import Budget
from trigmech.errors import InputError
from trigmech.ledger import Ledger
from trigmech.ledger_file import LedgerFile
from trigmech.mechanisms import Mechanism
from trigmech.schema import Column, Schema
from trigmech.synthesis import Synthesis, synthesize
from trigmech.tables import column_names, like, numbers

CONTAINERS = ("default", "pandas", "polars")


class Synthesizer(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A sampler with scikit-learn's conventions: ``fit`` releases a table once, ``sample`` draws synthetic rows.

    Parameters
    ----------
    schema : Schema or "cube"
        The public description of the table. "cube": every column is a number with the public bounds -1 and 1.
    epsilon, delta : float
        The privacy budget of one call of ``fit``.
    mechanism : Mechanism, optional
        Default: :class:`trigmech.MomentMechanism`.
    ledger : path or LedgerFile, optional
        Of the data set; every ``fit`` is charged there and refused when the total would be exceeded. Without it
        nothing adds up the budgets of several fits: a search over options by repeated fits of one table spends each
        time.
    random_state : int, RandomState or None
        None, the default, for a private release. Anything else makes a repeatable *simulation*, which is not private.

    Attributes
    ----------
    synthesis_ : Synthesis
        All that was released.
    ledger_ : Ledger
        What was spent.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only if the table had column names.

    Notes
    -----
    Privacy: that of :func:`trigmech.synthesize`. Cost: likewise.

    Examples
    --------
    >>> import numpy as np, trigmech as tm
    >>> X = np.random.default_rng(1).uniform(-1, 1, (500, 3))
    >>> model = tm.Synthesizer(schema="cube", epsilon=1.0, random_state=1).fit(X)
    >>> model.sample(4).shape
    (4, 3)
    """

    def __init__(self, schema: Schema | Literal["cube"] = "cube", *, epsilon: float = 1.0, delta: float = 0.0,
                 mechanism: Mechanism | None = None, ledger: str | Path | LedgerFile | None = None,
                 random_state: Any = None) -> None:
        self.schema = schema
        self.epsilon = epsilon
        self.delta = delta
        self.mechanism = mechanism
        self.ledger = ledger
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Release a table.

        Parameters
        ----------
        X : dataframe or array_like (n, d), private
        y : ignored
            There for pipelines.

        Returns
        -------
        self

        Raises
        ------
        InputError, BudgetError
            As :func:`trigmech.synthesize`.
        """
        names = column_names(X)
        if isinstance(self.schema, Schema):
            schema = self.schema
        elif isinstance(self.schema, str) and self.schema == "cube":
            if names is None:
                X = numbers("the table", X, "n", "d")
                schema = Schema.cube(X.shape[1])
            else:
                schema = Schema(Column(name, -1.0, 1.0) for name in names)
        else:
            raise InputError(f"schema must be a Schema or 'cube', not {self.schema!r}")
        rng = None
        if self.random_state is not None:
            rng = np.random.default_rng(check_random_state(self.random_state).randint(2**32, size=4, dtype=np.uint64))
        self.synthesis_: Synthesis = synthesize(X, schema, Budget(self.epsilon, self.delta), self.mechanism, rng,
                                                ledger=self.ledger)
        self.ledger_: Ledger = self.synthesis_.ledger
        self.n_features_in_ = len(schema.columns)
        self.__dict__.pop("feature_names_in_", None)
        if names is not None:
            self.feature_names_in_ = np.array(schema.names, dtype=object)
        return self

    def sample(self, n_samples: int | None = None, random_state: Any = None) -> Any:
        """Return synthetic rows.

        Parameters
        ----------
        n_samples : int, optional
            Default: as many as the table had.
        random_state : int, RandomState or None
            Of the draw; any seed is fine here.

        Returns
        -------
        dataframe or ndarray (n_samples, d)
            Of the type that was fitted, unless ``set_output`` chose one.
        """
        check_is_fitted(self)
        rng = None
        if random_state is not None:
            rng = np.random.default_rng(check_random_state(random_state).randint(2**32, size=4, dtype=np.uint64))
        made = self.synthesis_
        container = getattr(self, "_container", "default")
        if container == "default":
            return made.sample(n_samples, rng)
        return like(container, made.schema.names, list(made.columns(n_samples, rng).values()))

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Return the names of the synthetic table's columns."""
        check_is_fitted(self)
        return np.array(self.synthesis_.schema.names, dtype=object)

    def set_output(self, *, transform: str | None = None) -> Self:
        """Choose what ``sample`` returns: "default" (as fitted), "pandas" or "polars"; None leaves it."""
        if transform is not None and transform not in CONTAINERS:
            raise InputError(f"transform must be one of {', '.join(CONTAINERS)} or None, not {transform!r}")
        if transform is not None:
            self._container = transform
        return self
