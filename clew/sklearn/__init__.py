"""Estimators for scikit-learn: `Classifier` for texts and `Tagger` for words.

    scores = cross_val_score(Classifier(training__steps=200), texts, labels)

Parameters are the settings of `clew.train`, as `section__field`; `GridSearchCV(Classifier(), {"model__dim": [64,
128]})` varies them.
"""

from clew.core.errors import UserError

try:
    import sklearn  # noqa: F401
except ImportError:
    raise UserError(
        "clew.sklearn needs scikit-learn, which is not installed; run `pip install 'clew[sklearn]'`"
    ) from None

from clew.sklearn.classifier import Classifier
from clew.sklearn.tagger import Tagger

__all__ = ["Classifier", "Tagger"]
