"""EfficientNet-Lite as an ONNX graph, written layer by layer.

Tracing a network takes torch ten seconds; this takes a tenth of one, so that the first learn does not wait for it.
ONNX's padding SAME_UPPER is TensorFlow's SAME, for images of any size.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from itaml.models.backbones.efficientnet_lite import FEATURES, EfficientNetLite, InvertedResidual, SameConv2d
from itaml.models.backbones.module import import_optional

OPSET, IR_VERSION = 17, 8  # read by every onnxruntime since 1.12
INPUT, OUTPUT = "images", "features"


class _Graph:
    """Nodes and weights, collected in order."""

    def __init__(self, onnx: Any) -> None:
        self.onnx = onnx
        self.nodes: list[Any] = []
        self.weights = [self._constant("zero", 0.0), self._constant("six", 6.0)]

    def _constant(self, name: str, value: float) -> Any:
        return self.onnx.helper.make_tensor(name, self.onnx.TensorProto.FLOAT, [], [value])

    def weight(self, value: Tensor) -> str:
        """Add a weight; return its name."""
        name = f"w{len(self.weights)}"
        self.weights.append(self.onnx.numpy_helper.from_array(value.detach().contiguous().numpy(), name))
        return name

    def node(self, kind: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        """Add a node; return the name of its output."""
        name = output or f"x{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(kind, inputs, [name], **attributes))
        return name

    def unit(self, x: str, layers: nn.Module) -> str:
        """Add a convolution with folded batch normalization, and its ReLU6 if it has one."""
        for layer in layers.children():
            if isinstance(layer, SameConv2d):
                assert layer.bias is not None, "batch normalization was not folded"
                x = self.node(
                    "Conv",
                    x,
                    self.weight(layer.weight),
                    self.weight(layer.bias),
                    kernel_shape=list(layer.kernel_size),
                    strides=list(layer.stride),
                    group=layer.groups,
                    auto_pad="SAME_UPPER",
                )
            elif isinstance(layer, nn.ReLU6):
                x = self.node("Clip", x, "zero", "six")
            else:
                assert isinstance(layer, nn.Identity), f"an EfficientNet-Lite has no {type(layer).__name__}"
        return x


def lite_graph(network: EfficientNetLite, *, name: str) -> bytes:
    """Return an ONNX model from normalised images (n, 3, h, w) to features (n, features).

    Args:
        network: with batch normalization folded into its convolutions.
        name: for messages.

    Raises:
        MissingExtraError: onnx is not installed.
    """
    onnx = import_optional("onnx", "'itaml[export]'", name)
    graph = _Graph(onnx)
    x = graph.unit(INPUT, network.stem)
    for block in network.blocks:
        assert isinstance(block, InvertedResidual)
        y = graph.unit(graph.unit(graph.unit(x, block.expand), block.depthwise), block.project)
        x = graph.node("Add", y, x) if block.residual else y
    pooled = graph.node("GlobalAveragePool", graph.unit(x, network.head))
    graph.node("Flatten", pooled, output=OUTPUT)
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    ends = (
        [helper.make_tensor_value_info(INPUT, kind, ["n", 3, "h", "w"])],
        [helper.make_tensor_value_info(OUTPUT, kind, ["n", FEATURES])],
    )
    made = helper.make_model(
        helper.make_graph(graph.nodes, "efficientnet-lite", *ends, graph.weights),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
    )
    content: bytes = made.SerializeToString()
    return content
