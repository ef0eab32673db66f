"""Use the scikit-learn estimator: classes arrive in two calls of `partial_fit`."""

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from itaml.sklearn import ITAMLClassifier

features, labels = load_digits(return_X_y=True)
train_x, test_x, train_y, test_y = train_test_split(features, labels, random_state=0, stratify=labels)
estimator = ITAMLClassifier(epochs=3, random_state=0)
for digits in (range(5), range(5, 10)):
    rows = [label in digits for label in train_y]
    estimator.partial_fit(train_x[rows], train_y[rows])
    print(
        f"{len(estimator.classes_)} classes, accuracy on all ten digits {100 * estimator.score(test_x, test_y):.1f} %"
    )
