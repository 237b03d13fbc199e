"""Networks of the transformers package, small and with seeded weights, as PyTorch's exporters write them.

Of each architecture its own classes, two layers deep, so that the graphs have all that the full-size ones have.
"""
from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import onnx
import torch
import transformers as hf
from torch import nn

TRACED = 17  # the operator set of the exporter before, which traces
Arguments = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Architecture:
    """A configuration, the class that it makes, its inputs, and which of its results are asked for."""

    config: Callable[[], Any]
    network: Callable[[Any], nn.Module]
    inputs: Callable[[torch.Generator], Arguments]
    results: tuple[str, ...]


class _Chosen(nn.Module):
    """A network with some of its results, as a tuple."""

    def __init__(self, network: nn.Module, names: Sequence[str], results: Sequence[str]) -> None:
        super().__init__()
        self.network, self.names, self.results = network, tuple(names), tuple(results)

    def forward(self, *given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        made = self.network(**dict(zip(self.names, given)), return_dict=True)
        return tuple(made[name] for name in self.results)


def exported(name: str, opset: int = 20, free: Sequence[str] = ()) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """(the model as an exporter writes it, NumPy arrays for its inputs) of an architecture by name.

    `free`: names for the leading dimensions of every input, which the model then leaves open. UnsupportedOperatorError, of torch, where the
    exporter before does not know an operator.
    """
    torch.manual_seed(0)
    made = ARCHITECTURES[name]
    network = made.network(made.config()).eval()
    _vary(network)
    given = made.inputs(torch.Generator().manual_seed(0))
    chosen, file = _Chosen(network, list(given), made.results).eval(), io.BytesIO()
    told: dict[str, Any] = {"input_names": list(given), "output_names": list(made.results), "opset_version": opset}
    with torch.no_grad():
        if opset == TRACED:
            torch.onnx.export(chosen, tuple(given.values()), file, dynamo=False, **told)
        else:
            shapes = {"given": tuple(dict(enumerate(free)) for _ in given)} if free else None
            program = torch.onnx.export(chosen, tuple(given.values()), dynamo=True, verbose=False, dynamic_shapes=shapes, **told)
            assert program is not None
            program.save(file)
    return onnx.load_from_string(file.getvalue()), {k: v.numpy() for k, v in given.items()}


def _vary(network: nn.Module) -> None:
    """Nothing; biases, scales and statistics, which are 0 and 1 at first, take part in the results."""
    with torch.no_grad():
        for p in (*network.parameters(), *(b for n, b in network.named_buffers() if n.endswith(("running_mean", "running_var")))):
            if p.ndim == 1 and p.is_floating_point():
                p.add_(torch.rand_like(p) / 4)


# ---------------------------------------------------------------- inputs

def _words(vocabulary: int = 99, batch: int = 2, seq: int = 16, mask: bool = True, name: str = "input_ids") -> Callable[..., Arguments]:
    def inputs(random: torch.Generator) -> Arguments:
        made = {name: torch.randint(3, vocabulary, (batch, seq), generator=random)}
        if mask:
            made["attention_mask"] = (torch.arange(seq) < torch.tensor([[seq], [seq - 5]])[:batch]).long()
        return made
    return inputs


def _image(size: int, batch: int = 1) -> Callable[..., Arguments]:
    return lambda random: {"pixel_values": torch.randn(batch, 3, size, size, generator=random)}


def _both(*parts: Callable[..., Arguments]) -> Callable[..., Arguments]:
    return lambda random: {k: v for part in parts for k, v in part(random).items()}


TEXT = {"vocab_size": 99, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
DECODER = {**TEXT, "num_key_value_heads": 2, "max_position_embeddings": 64, "use_cache": False}
VISION = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "image_size": 32, "patch_size": 8}

ARCHITECTURES = {
    "bert": Architecture(lambda: hf.BertConfig(**TEXT), hf.BertForMaskedLM, _words(), ("logits",)),
    "roberta": Architecture(lambda: hf.RobertaConfig(**TEXT), hf.RobertaForSequenceClassification, _words(), ("logits",)),
    "distilbert": Architecture(lambda: hf.DistilBertConfig(vocab_size=99, dim=64, n_layers=2, n_heads=4, hidden_dim=128),
                               hf.DistilBertForTokenClassification, _words(), ("logits",)),
    "gpt2": Architecture(lambda: hf.GPT2Config(vocab_size=99, n_embd=64, n_layer=2, n_head=4, n_positions=64, use_cache=False),
                         hf.GPT2LMHeadModel, _words(), ("logits",)),
    "llama": Architecture(lambda: hf.LlamaConfig(**DECODER), hf.LlamaForCausalLM, _words(), ("logits",)),
    "mistral": Architecture(lambda: hf.MistralConfig(**DECODER, sliding_window=6), hf.MistralForCausalLM, _words(), ("logits",)),
    "qwen2": Architecture(lambda: hf.Qwen2Config(**DECODER), hf.Qwen2ForCausalLM, _words(mask=False), ("logits",)),
    "gemma": Architecture(lambda: hf.GemmaConfig(**DECODER, head_dim=16), hf.GemmaForCausalLM, _words(mask=False), ("logits",)),
    "t5": Architecture(lambda: hf.T5Config(vocab_size=99, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4, use_cache=False),
                       hf.T5ForConditionalGeneration, _both(_words(), _words(seq=7, mask=False, name="decoder_input_ids")), ("logits",)),
    "vit": Architecture(lambda: hf.ViTConfig(**VISION), hf.ViTForImageClassification, _image(32), ("logits",)),
    "deit": Architecture(lambda: hf.DeiTConfig(**VISION), hf.DeiTForImageClassificationWithTeacher, _image(32), ("logits",)),
    "swin": Architecture(lambda: hf.SwinConfig(image_size=32, patch_size=2, embed_dim=32, depths=[2, 2], num_heads=[2, 4], window_size=4),
                         hf.SwinForImageClassification, _image(32), ("logits",)),
    "convnext": Architecture(lambda: hf.ConvNextConfig(hidden_sizes=[32, 64], depths=[2, 2], num_stages=2),
                             hf.ConvNextForImageClassification, _image(32), ("logits",)),
    "resnet": Architecture(lambda: hf.ResNetConfig(embedding_size=32, hidden_sizes=[64, 128], depths=[2, 2]),
                           hf.ResNetForImageClassification, _image(64), ("logits",)),
    "mobilenet": Architecture(lambda: hf.MobileNetV2Config(image_size=64, depth_multiplier=0.5), hf.MobileNetV2ForImageClassification,
                              _image(64), ("logits",)),
    "segformer": Architecture(lambda: hf.SegformerConfig(
        num_encoder_blocks=2, depths=[1, 1], sr_ratios=[4, 2], hidden_sizes=[32, 64], patch_sizes=[7, 3], strides=[4, 2],
        num_attention_heads=[1, 2], mlp_ratios=[2, 2], decoder_hidden_size=64, num_labels=7),
        hf.SegformerForSemanticSegmentation, _image(64), ("logits",)),
    "wav2vec2": Architecture(lambda: hf.Wav2Vec2Config(
        **TEXT, conv_dim=(32, 32, 32), conv_stride=(5, 2, 2), conv_kernel=(10, 3, 3), num_conv_pos_embeddings=16,
        num_conv_pos_embedding_groups=4), hf.Wav2Vec2ForCTC, lambda random: {"input_values": torch.randn(1, 800, generator=random)},
        ("logits",)),
    "whisper": Architecture(lambda: hf.WhisperConfig(
        vocab_size=99, num_mel_bins=16, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
        encoder_ffn_dim=128, decoder_ffn_dim=128, d_model=64, max_source_positions=32, max_target_positions=32, pad_token_id=0,
        bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, use_cache=False), hf.WhisperForConditionalGeneration,
        _both(lambda random: {"input_features": torch.randn(1, 16, 64, generator=random)},
              _words(batch=1, seq=7, mask=False, name="decoder_input_ids")), ("logits",)),
    "clip": Architecture(lambda: hf.CLIPConfig(text_config={**TEXT, "max_position_embeddings": 32, "eos_token_id": 98},
                                               vision_config=VISION, projection_dim=32), hf.CLIPModel,
                         _both(_words(), _image(32)), ("logits_per_image", "text_embeds")),
}
