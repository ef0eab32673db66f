"""Networks: backbones, the growing head, and the classifier made of both."""

from itaml.registry import Registry

MODELS = Registry("model", group="itaml.models")
MODELS.add("mlp", "itaml.models.mlp:mlp_400", "two hidden layers of 400, the paper's network for MNIST")
MODELS.add("resnet18", "itaml.models.resnet:resnet18", "ResNet-18, 11.2M parameters, the paper's network for ImageNet")
MODELS.add(
    "resnet18-third",
    "itaml.models.resnet:resnet18_third",
    "ResNet-18 with a third of the filters, 1.25M parameters, the paper's network for CIFAR-100 and SVHN",
)
MODELS.add(
    "resnet18-small", "itaml.models.resnet:resnet18_small", "ResNet-18 with a fifth of the filters, 0.49M parameters"
)
