"""What files each data set consists of, where under the data root they are looked for, and where they can be had.

Importing this module imports no torch. Checksums: those of MNIST, Fashion-MNIST and SVHN are what torchvision publishes
in `torchvision/datasets/{mnist,svhn}.py` (MNIST's turned into SHA-256 from files with these MD5 sums), CIFAR-10's is
that of https://www.cs.toronto.edu/~kriz/cifar.html; those of CIFAR-100's binary archive and of Tiny-ImageNet are the
ones that many public loaders agree on.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from itaml.errors import DataError, UnknownNameError
from itaml.registry import unknown


@dataclass(frozen=True)
class Remote:
    """A file that can be downloaded."""

    path: str  # under the data root
    urls: tuple[str, ...]  # alternatives, tried in order
    checksum: str  # algorithm:digest, as pooch writes it
    unpacks_to: str | None = None  # folder that a zip file becomes


@dataclass(frozen=True)
class Layout:
    """One data set: alternatives of paths that have to exist together, the best first, and what can be downloaded."""

    name: str
    summary: str
    places: tuple[tuple[str, ...], ...]
    remotes: tuple[Remote, ...] = ()
    why_not: str = ""  # why it cannot be downloaded

    def find(self, root: Path) -> tuple[Path, ...] | None:
        """Return the paths of the first alternative that is complete; a file may also be there with `.gz` added."""
        for place in self.places:
            paths = [_existing(root / part) for part in place]
            if all(paths):
                return tuple(path for path in paths if path)
        return None

    def missing(self, root: Path) -> tuple[str, ...]:
        """Return what lacks of the alternative of which the largest part is there; the first one if nothing is."""
        lacking = [(place, tuple(part for part in place if not _existing(root / part))) for place in self.places]
        return min(lacking, key=lambda pair: len(pair[1]) / len(pair[0]))[1]

    def require(self, root: Path) -> tuple[Path, ...]:
        """Return the paths of the data set.

        Raises:
            DataError: it is not there; the message says what was looked for and what can be done.
        """
        found = self.find(root)
        if found is None:
            places = " or ".join(", ".join(place) for place in self.places)
            advice = self.why_not or f"`itaml data fetch {self.name}` downloads it"
            raise DataError(f"{self.name} is not in {root}: looked for {places}; {advice}")
        return found


def _existing(path: Path) -> Path | None:
    zipped = path.with_name(path.name + ".gz")
    return path if path.exists() else zipped if zipped.exists() else None


_IDX = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
_MNIST_SUMS = (
    "sha256:440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    "sha256:3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    "sha256:8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "sha256:f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
)
_FASHION_SUMS = (
    "md5:8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    "md5:25c81989df183df01b3e8a0aad5dffbe",
    "md5:bef4ecab320f06d8554ea6380940ec79",
    "md5:bb300cfdad3c16e7a12a480ee83cd310",
)
_MNIST = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
_FASHION = ("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",)
_SVHN = "http://ufldl.stanford.edu/housenumbers/"
_CIFAR = "https://www.cs.toronto.edu/~kriz/"
_NO_IMAGENET = (
    "ImageNet cannot be downloaded without an account: get it from https://image-net.org and put the folders "
    "train/ and val/, one folder per class inside, there"
)
_NO_CELEB = (
    "MS-Celeb-1M was withdrawn by its publisher and cannot be downloaded: put any set of faces, "
    "one folder per identity, there"
)


def _idx(
    name: str, summary: str, folders: tuple[str, str], base_urls: tuple[str, ...], sums: tuple[str, ...]
) -> Layout:
    remotes = tuple(
        Remote(f"{folders[0]}/{file}.gz", tuple(f"{base}{file}.gz" for base in base_urls), checksum)
        for file, checksum in zip(_IDX, sums, strict=True)
    )
    return Layout(name, summary, tuple(tuple(f"{folder}/{file}" for file in _IDX) for folder in folders), remotes)


def _cifar(name: str, stem: str, *, folders: tuple[str, str], train: tuple[str, ...], test: str, md5: str) -> Layout:
    return Layout(
        name,
        f"{name[5:]} classes of 32x32 colour images",
        (
            tuple(f"{folders[0]}/{file}.bin" for file in (*train, test)),
            tuple(f"{folders[1]}/{file}" for file in (*train, test)),
            (f"{stem}-binary.tar.gz",),
            (f"{stem}-python.tar.gz",),
        ),
        (Remote(f"{stem}-binary.tar.gz", (f"{_CIFAR}{stem}-binary.tar.gz",), f"md5:{md5}"),),
    )


_TINY = ("tiny-imagenet-200", "tiny-imagenet", "tiny-imagenet-100")
_IMAGENET = ("imagenet-1k", "imagenet", "ILSVRC2012")

LAYOUTS: dict[str, Layout] = {
    layout.name: layout
    for layout in (
        _idx("mnist", "28x28 grey digits", ("MNIST/raw", "mnist"), _MNIST, _MNIST_SUMS),
        _idx("fashion-mnist", "28x28 grey clothes", ("FashionMNIST/raw", "fashion-mnist"), _FASHION, _FASHION_SUMS),
        Layout(
            "svhn",
            "32x32 colour house numbers, cropped",
            tuple((f"{base}train_32x32.mat", f"{base}test_32x32.mat") for base in ("svhn/", "SVHN/", "")),
            (
                Remote("svhn/train_32x32.mat", (f"{_SVHN}train_32x32.mat",), "md5:e26dedcc434d2e4c54c9b2d4a06d8373"),
                Remote("svhn/test_32x32.mat", (f"{_SVHN}test_32x32.mat",), "md5:eb5a983be6a315427106f1b164d9cef3"),
            ),
        ),
        Layout(
            "svhn-10k",
            "10,000 images of SVHN: 8,000 for training, 2,000 for testing",
            (("svhn-10k/train_32x32.mat", "svhn-10k/test_32x32.mat"),),
            why_not="put a selection of SVHN's images there, in files of SVHN's form",
        ),
        _cifar(
            "cifar10",
            "cifar-10",
            folders=("cifar-10-batches-bin", "cifar-10-batches-py"),
            train=tuple(f"data_batch_{number}" for number in range(1, 6)),
            test="test_batch",
            md5="c32a1d4ab5d03f1284b67883e8d87530",
        ),
        _cifar(
            "cifar100",
            "cifar-100",
            folders=("cifar-100-binary", "cifar-100-python"),
            train=("train",),
            test="test",
            md5="03b5dce01913d631647c71ecec9e9cb8",
        ),
        Layout(
            "tiny-imagenet",
            "64x64 colour images of 200 (or fewer) ImageNet classes",
            tuple((f"{base}/train", f"{base}/val") for base in _TINY),
            (
                Remote(
                    "tiny-imagenet-200.zip",
                    ("http://cs231n.stanford.edu/tiny-imagenet-200.zip",),
                    "md5:90528d7ca1a48142e341f4ef8d21d0de",
                    unpacks_to="tiny-imagenet-200",
                ),
            ),
        ),
        Layout(
            "imagenet-100",
            "100 of ImageNet's classes",
            tuple((f"{base}/train", f"{base}/val") for base in ("imagenet-100", "imagenet100", *_IMAGENET)),
            why_not=_NO_IMAGENET,
        ),
        Layout(
            "imagenet-1k",
            "ImageNet, 1,000 classes",
            tuple((f"{base}/train", f"{base}/val") for base in _IMAGENET),
            why_not=_NO_IMAGENET,
        ),
        Layout(
            "celeb-10k",
            "faces of 10,000 people, a folder each",
            (("celeb-10k",), ("ms-celeb-10k",), ("MS-Celeb-1M",)),
            why_not=_NO_CELEB,
        ),
    )
}


def layout(name: str) -> Layout:
    """Return the layout of the data set called `name`.

    Raises:
        UnknownNameError: there is none; the message offers the nearest name.
    """
    if name not in LAYOUTS:
        raise UnknownNameError(unknown("data set", name, LAYOUTS))
    return LAYOUTS[name]
