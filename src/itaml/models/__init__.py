"""Networks: backbones, the growing head, and the classifier made of both."""

from itaml.models.traits import BackboneTraits
from itaml.registry import Registry

MODELS = Registry("model", group="itaml.models")
MODELS.add(
    "mlp",
    "itaml.models.backbones.mlp:mlp_400",
    "two hidden layers of 400, the paper's network for MNIST",
    traits=BackboneTraits(convolutional=False),
)
MODELS.add(
    "resnet18",
    "itaml.models.backbones.resnet:resnet18",
    "ResNet-18, 11.2M parameters, the paper's network for ImageNet",
    traits=BackboneTraits(smallest_side=16),
)
MODELS.add(
    "resnet18-third",
    "itaml.models.backbones.resnet:resnet18_third",
    "ResNet-18 with a third of the filters, 1.25M parameters, the paper's network for CIFAR-100 and SVHN",
    traits=BackboneTraits(smallest_side=16),
)
MODELS.add(
    "resnet18-small",
    "itaml.models.backbones.resnet:resnet18_small",
    "ResNet-18 with a fifth of the filters, 0.49M parameters",
    traits=BackboneTraits(smallest_side=16),
)
MODELS.add(
    "pixels",
    "itaml.models.backbones.mlp:pixels",
    "no network: the pixels themselves are the features",
    traits=BackboneTraits(convolutional=False),
)
for _variant, _size in (("lite0", 224), ("lite1", 240), ("lite2", 260)):
    MODELS.add(
        f"efficientnet-{_variant}",
        f"itaml.models.pretrained:efficientnet_{_variant}",
        f"EfficientNet-{_variant.capitalize()} with ImageNet weights, {_size} x {_size} pixels; frozen unless tuned",
        traits=BackboneTraits(pretrained=True, image_size=_size),
    )
