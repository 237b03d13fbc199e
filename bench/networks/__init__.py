"""The zoo: real architectures at full size with seeded weights, as people's tools export them."""
from __future__ import annotations

from collections.abc import Callable

from aoec.frontend import zoo
from bench.networks import decoders, disentangled, quantised, speech, text, vision, vision_transformers
from bench.networks.net import Network

# name -> the network for a batch and a seed
NETWORKS: dict[str, Callable[[int, int], Network]] = {
    "resnet50": vision.resnet50, "bert-base": text.bert_base, "bert-base-512": lambda batch, seed: text.bert_base(batch, seed, 512),
    "gpt2": text.gpt2, "yolov5s": vision.yolov5s, "llm-block": text.llm_block, "unet": vision.unet, "mobilenet-v2": vision.mobilenet_v2,
    "lstm": speech.lstm, "crnn": speech.crnn, "gru": speech.gru, "resnet50-int8": quantised.resnet50_int8, "shufflenet": vision.shufflenet,
    "shufflenet-int8": quantised.shufflenet_int8, "bert-base-int8": quantised.bert_base_int8,
    "bert-base-512-int8": lambda batch, seed: quantised.bert_base_int8(batch, seed, 512),
    "vit-b16": vision_transformers.vit_b16, "mobilevit-s": vision_transformers.mobilevit_s,
    "deberta-base-512": disentangled.deberta_base, "llama-1b-block": decoders.llama_block, "llama-1b-decode": decoders.llama_decode,
    **{name: lambda batch, seed, build=build: vision.of(build(batch, seed), seed)  # type: ignore[misc]
       for name, build in zoo.MODELS.items() if name != "resnet50"}}
