"""Serve a GPT-2 folder with llama.cpp's own HTTP server, in 8 bits (Q8_0), from the packages `xllamacpp` and `gguf`.

    PYTHON llama_cpp.py FOLDER PORT THREADS SLOTS

The folder's weights are written to a GGUF file beside them first. Ends when its input ends.
"""

from __future__ import annotations

import json
import struct
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

LAYER = {  # GPT-2's names in safetensors and in GGUF
    "ln_1": "attn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output",
    "ln_2": "ffn_norm", "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down",
}  # fmt: skip
OTHER = {"transformer.wte.weight": "token_embd.weight", "transformer.wpe.weight": "position_embd.weight"}


def tensors(path: Path) -> dict[str, Any]:
    """The float32 tensors of a safetensors file."""
    numpy: Any = import_module("numpy")
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    found = {}
    for name, entry in header.items():
        first, last = entry["data_offsets"]
        raw = numpy.frombuffer(data[8 + size + first : 8 + size + last], numpy.float32)
        found[name if name.startswith("transformer.") else f"transformer.{name}"] = raw.reshape(entry["shape"])
    return found


def write(folder: Path, out: Path) -> None:
    """The folder as a GGUF file: matrices in Q8_0, all else in float32."""
    gguf: Any = import_module("gguf")
    quantised = gguf.GGMLQuantizationType.Q8_0
    config = json.loads((folder / "config.json").read_text())
    vocab = json.loads((folder / "tokenizer.json").read_text())["model"]
    writer = gguf.GGUFWriter(str(out), "gpt2")
    writer.add_context_length(config["n_positions"])
    writer.add_embedding_length(config["n_embd"])
    writer.add_block_count(config["n_layer"])
    writer.add_feed_forward_length(4 * config["n_embd"])
    writer.add_head_count(config["n_head"])
    writer.add_layer_norm_eps(config["layer_norm_epsilon"])
    words = sorted(vocab["vocab"], key=vocab["vocab"].__getitem__)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(words)
    writer.add_token_types([1] * len(words))
    writer.add_token_merges([each if isinstance(each, str) else " ".join(each) for each in vocab["merges"]])
    writer.add_eos_token_id(len(words) - 1)
    writer.add_bos_token_id(len(words) - 1)
    writer.add_add_bos_token(False)
    for name, tensor in tensors(folder / "model.safetensors").items():
        target = OTHER.get(name)
        if target is None and name.startswith("transformer.ln_f."):
            target = f"output_norm.{name.rpartition('.')[2]}"
        if target is None:
            _, _, number, rest = name.split(".", 3)
            part, _, kind = rest.rpartition(".")
            if part not in LAYER:
                continue  # the causal mask that old files hold
            target = f"blk.{number}.{LAYER[part]}.{kind}"
            tensor = tensor.T.copy() if kind == "weight" and tensor.ndim == 2 else tensor
        if tensor.ndim == 2 and target != "position_embd.weight":
            writer.add_tensor(target, gguf.quants.quantize(tensor, quantised), raw_dtype=quantised)
        else:
            writer.add_tensor(target, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main() -> None:
    """Serve until the input ends."""
    folder, port, threads, slots = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    file = folder / "model.gguf"
    write(folder, file)
    llama: Any = import_module("xllamacpp")
    params = llama.CommonParams()
    params.model.path = str(file)
    params.hostnames = ["127.0.0.1"]
    params.port, params.n_parallel, params.n_ctx = port, slots, 128 * slots
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.cont_batching, params.cache_prompt, params.warmup = True, False, True
    server = llama.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
