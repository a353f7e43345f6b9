#!/usr/bin/env python3
"""Compares the tokenizers of Tessera with Hugging Face's library "tokenizers" on mixed Unicode text.

    check_tokenizers.py --program train_tokenizer_documents [--megabytes 10] [--form NAME]... [--keep DIRECTORY]

Trains a tokenizer of each form (GPT-2, Llama 3, Qwen2, SentencePiece with byte fallback, ...) with the library, and
compares tokens and decoded text of both, as text, with special tokens, with the template, decoded and streamed. Prints
a line per form with the rates of both on one thread. The library comes from this Python, or from a virtual environment
in build/tokenizers. Exits with 1 if a result differs, with 77 if the library is not available.
"""

import argparse
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import time
import unicodedata

ROOT = pathlib.Path(__file__).resolve().parent.parent
SKIPPED = 77
VOCABULARY = 6000
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"{1,3}", "")
GPT4O = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SPACE = "\u2581"
SCRIPTS = [(0x61, 0x7A), (0x61, 0x7A), (0x61, 0x7A), (0xC0, 0x17F), (0x370, 0x3FF), (0x400, 0x4FF), (0x531, 0x587),
           (0x5D0, 0x5EA), (0x620, 0x64A), (0x904, 0x97F), (0xE01, 0xE5B), (0x10A0, 0x10FF), (0x1200, 0x137C),
           (0x1E00, 0x1FFF), (0x3041, 0x30FF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0x1100, 0x11FF), (0x10400, 0x1044F)]
SPECIAL = ["<|endoftext|>", "<|im_end|>", "</s>", "<s>"]
JOINTS = [" "] * 40 + ["  ", "   ", "\n", "\n\n", "\r\n", "\t", " \n ", "\u00a0", "\u3000", "\u2003", "\u2028", ", ", ". ",
                       "; ", "-", "/", "...", "!!", " (", ") ", "_", "", "\u200b", "\u200d", "\x00", "\x1f"]
ENDINGS = ["'s", "'S", "'ll", "'LL", "'re", "'Ve", "'m", "'D", "'t", "'\u017f", "\u2019s"]
EMOJI = ["\U0001F600", "\U0001F468\u200d\U0001F469\u200d\U0001F467", "\u2764\ufe0f", "\U0001F1E9\U0001F1EA", "\U0001F44D\U0001F3FD"]


def ensure_library():
    """Runs this script again with a Python that has the library; returns if this one has it."""
    try:
        import tokenizers  # noqa: F401
        return
    except ImportError:
        pass
    environment = ROOT / "build" / "tokenizers"
    python = environment / "bin" / "python3"
    if sys.executable != str(python):
        commands = [] if python.exists() else [[sys.executable, "-m", "venv", str(environment)]]
        commands.append([str(python), "-m", "pip", "install", "--quiet", "--retries", "1", "--timeout", "15", "tokenizers"])
        for command in commands:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                print(f"skipped: tokenizers is not available from PyPI: {done.stderr.strip().splitlines()[-1:]}")
                sys.exit(SKIPPED)
        os.execv(python, [str(python), *sys.argv])
    print("skipped: the tokenizers from PyPI cannot be imported")
    sys.exit(SKIPPED)


class Text:
    """Random text in many scripts, with the same words again and again as in natural text."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.special = SPECIAL
        # Both libraries know the code points of Unicode 14; Python may know later ones.
        known = unicodedata if int(unicodedata.unidata_version.split(".")[0]) <= 14 else unicodedata.ucd_3_2_0
        self.known = [chr(c) for c in range(0x110000) if known.category(chr(c)) not in ("Cn", "Cs", "Co")]
        # The library orders and composes marks as Unicode 9 did: later marks, and what contains them, are left out.
        old = unicodedata.ucd_3_2_0
        self.known = [c for c in self.known if old.category(c) != "Cn" or not (
            unicodedata.combining(c) or unicodedata.normalize("NFD", c) != c)]
        self.marks = [c for c in self.known if old.category(c)[0] == "M"]
        self.words = [[self.word(*script) for _ in range(600)] for script in SCRIPTS]

    def word(self, first, last):
        letters = [c for c in map(chr, range(first, last + 1)) if unicodedata.category(c) != "Cn"]
        kept = self.random.sample(letters, min(len(letters), 40))
        length = 1 + min(int(self.random.expovariate(0.25)), 30)
        return "".join(self.random.choice(kept) for _ in range(length))

    def piece(self):
        pick = self.random.random()
        if pick < 0.72:
            words = self.random.choice(self.words)
            word = words[min(int(self.random.expovariate(0.02)), len(words) - 1)]
            form = self.random.random()
            if form < 0.1:
                word = word.capitalize() if form < 0.07 else word.upper()
            elif form < 0.2:
                word = unicodedata.normalize("NFD" if form < 0.15 else "NFKD", word)
            return word + (self.random.choice(ENDINGS) if self.random.random() < 0.05 else "")
        if pick < 0.82:
            return str(self.random.randrange(10 ** self.random.randrange(1, 9)))
        if pick < 0.86:
            return self.random.choice("aeiou\u0915\uac00") + "".join(self.random.choices(self.marks, k=self.random.randrange(1, 4)))
        if pick < 0.90:
            return self.random.choice(EMOJI) * self.random.randrange(1, 4)
        if pick < 0.91:
            return self.random.choice(self.special)
        if pick < 0.93:
            return self.random.choice(["a", "=", "\u4e00", " ", "ab", "0"]) * self.random.randrange(1, 200)
        if pick < 0.97:
            return "".join(self.random.choices("{}[]()<>=+-*/\\|&^%$#@!~`'\"?:;.,_", k=self.random.randrange(1, 8)))
        return "".join(self.random.choices(self.known, k=self.random.randrange(1, 6)))

    def document(self, size):
        parts = []
        while size > 0:
            parts += [self.piece(), self.random.choice(JOINTS)]
            size -= len(parts[-2].encode()) + len(parts[-1])
        return "".join(parts)

    def documents(self, size):
        """Documents of together about this many bytes, most of them short."""
        made = ["", " ", "\n", "a", " a", "a ", SPACE, SPACE + "a", "<s>", " <s> a", "\u0301", "'s"]
        while size > 0:
            made.append(self.document(int(min(2 ** self.random.uniform(0, 16), size))))
            size -= max(1, len(made[-1].encode()))
        return made


def forms(library):
    """The forms: name -> function that trains a tokenizer on documents."""
    from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors, trainers

    def byte_level(pre_tokenizer, special=("<|endoftext|>",), normalizer=None, ignore_merges=False):
        def make(documents):
            made = library.Tokenizer(models.BPE(ignore_merges=ignore_merges))
            made.pre_tokenizer = pre_tokenizer
            if normalizer:
                made.normalizer = normalizer
            made.decoder = decoders.ByteLevel()
            made.post_processor = processors.ByteLevel(trim_offsets=False)
            trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=list(special), show_progress=False,
                                          initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
            made.train_from_iterator(documents, trainer)
            return made
        return make

    def split(pattern):
        return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"),
                                        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])

    def llama3(documents):
        made = byte_level(split(LLAMA3), ["<|begin_of_text|>", "<|end_of_text|>"], ignore_merges=True)(documents)
        begin = processors.TemplateProcessing(single="<|begin_of_text|> $A", special_tokens=[
            ("<|begin_of_text|>", made.token_to_id("<|begin_of_text|>"))])
        made.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), begin])
        return made

    def qwen2(documents):
        made = byte_level(split(QWEN2), ["<|endoftext|>", "<|im_end|>"], normalizers.NFC())(documents)
        made.add_tokens([AddedToken("ab", single_word=True, normalized=True), AddedToken("<s>", lstrip=True, normalized=False),
                         AddedToken("</s>", rstrip=True, normalized=False), AddedToken("==", normalized=True)])
        return made

    def sentencepiece(finish, fallback=True, **model):
        """Learned with words that begin with a space; `finish` sets the other steps."""
        def make(documents):
            made = library.Tokenizer(models.BPE(unk_token="<unk>", **model))
            made.pre_tokenizer = pre_tokenizers.Metaspace()
            trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=["<unk>", "<s>", "</s>"], limit_alphabet=1200,
                                          show_progress=False)
            made.train_from_iterator(documents, trainer)
            file = json.loads(made.to_str())
            if fallback:
                vocabulary = file["model"]["vocab"]
                file["model"]["byte_fallback"] = True
                for byte in range(256):
                    vocabulary[f"<0x{byte:02X}>"] = len(vocabulary)
            made = library.Tokenizer.from_str(json.dumps(file))
            finish(made)
            return made
        return make

    def template(made):
        made.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)])

    def llama2(made):
        made.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)])
        made.pre_tokenizer = None
        made.decoder = decoders.Sequence([decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse(),
                                          decoders.Strip(" ", 1, 0)])
        template(made)

    def metaspace(scheme, is_split):
        def finish(made):
            made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=is_split)
            made.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(prepend_scheme=scheme)])
            made.add_tokens([AddedToken("\n\n", normalized=False), AddedToken("abc", normalized=True)])
            template(made)
        return finish

    def gemma(made):
        made.normalizer = normalizers.Replace(" ", SPACE)
        made.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
        made.decoder = decoders.Sequence([decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()])

    def lower(made):
        made.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase(), normalizers.NFC()])
        made.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(False), pre_tokenizers.Split(
            Regex(r"[\p{P}\p{S}]+"), "merged_with_next"), pre_tokenizers.Metaspace()])
        made.decoder = decoders.Metaspace()

    digits = pre_tokenizers.Sequence([pre_tokenizers.Digits(True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    return {
        "gpt2": byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False)),
        "gpt2_prefix": byte_level(pre_tokenizers.ByteLevel(add_prefix_space=True)),
        "llama3": llama3,
        "qwen2": qwen2,
        "gpt4o": byte_level(split(GPT4O)),
        "starcoder": byte_level(digits),
        "llama2": sentencepiece(llama2, fuse_unk=True),
        "metaspace_first": sentencepiece(metaspace("first", False)),
        "metaspace_always": sentencepiece(metaspace("always", True)),
        "gemma": sentencepiece(gemma),
        "unknown": sentencepiece(lower, fallback=False),
        "unknown_fused": sentencepiece(lower, fallback=False, fuse_unk=True),
    }


def write(path, documents):
    with open(path, "wb") as file:
        for document in documents:
            items = document.encode() if isinstance(document, str) else struct.pack(f"<{len(document)}I", *document)
            file.write(struct.pack("<I", len(document) if not isinstance(document, str) else len(items)) + items)


def read(path, width):
    documents, at, data = [], 0, path.read_bytes()
    while at < len(data):
        count = struct.unpack_from("<I", data, at)[0]
        end = at + 4 + width * count
        documents.append(list(struct.unpack_from(f"<{count}I", data, at + 4)) if width == 4 else data[at + 4:end].decode())
        at = end
    return documents


class Comparison:
    """One form: the library, the program, and what differs."""

    def __init__(self, program, directory, name, tokenizer, documents):
        self.program, self.directory, self.name, self.tokenizer = program, directory, name, tokenizer
        self.documents = documents
        self.file = directory / f"{name}.json"
        tokenizer.save(str(self.file))
        write(directory / "text", documents)
        self.failures = 0

    def run(self, mode, source, width):
        target = self.directory / "result"
        done = subprocess.run([self.program, mode, str(self.file), str(self.directory / source), str(target)],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{self.name}, {mode}: {done.stderr.strip()}")
        return read(target, width), float(done.stdout)

    def compare(self, mode, found, expected, sources):
        different = [i for i, pair in enumerate(zip(found, expected, strict=True)) if pair[0] != pair[1]]
        if not different:
            return
        self.failures += 1
        first = different[0]
        ours, theirs = found[first], expected[first]
        at = next((i for i, pair in enumerate(zip(ours, theirs)) if pair[0] != pair[1]), min(len(ours), len(theirs)))
        print(f"{self.name}, {mode}: {len(different)} of {len(found)} documents differ; document {first} at {at}:\n"
              f"  here    {ours[max(0, at - 3):at + 6]!r}\n  library {theirs[max(0, at - 3):at + 6]!r}")
        if isinstance(ours, list):
            for who, tokens in (("here", ours), ("library", theirs)):
                print(f"  {who:7} {[self.tokenizer.id_to_token(t) for t in tokens[max(0, at - 3):at + 6]]!r}")
        else:
            print(f"  tokens  {[self.tokenizer.id_to_token(t) for t in sources[first][:12]]!r} ...")

    def encode(self, special, template):
        self.tokenizer.encode_special_tokens = not special
        start = time.perf_counter()
        encodings = self.tokenizer.encode_batch_fast(self.documents, add_special_tokens=template)
        seconds = time.perf_counter() - start
        return [encoding.ids for encoding in encodings], seconds

    def all(self):
        nbytes = sum(len(document.encode()) for document in self.documents)
        plain, library_seconds = self.encode(False, False)
        found, seconds = self.run("text", "text", 4)
        self.compare("text", found, plain, self.documents)
        self.compare("special", self.run("special", "text", 4)[0], self.encode(True, False)[0], self.documents)
        tokens = self.encode(True, True)[0]
        self.compare("template", self.run("template", "text", 4)[0], tokens, self.documents)
        write(self.directory / "tokens", tokens)
        decoded, decode_seconds = self.run("decode", "tokens", 1)
        self.compare("decode", decoded, self.tokenizer.decode_batch(tokens, skip_special_tokens=False), tokens)
        self.compare("shown", self.run("shown", "tokens", 1)[0],
                     self.tokenizer.decode_batch(tokens, skip_special_tokens=True), tokens)
        count = sum(map(len, plain))
        print(f"{self.name:18} {nbytes / 1e6:6.2f} MB {count:9} tokens  encode {nbytes / seconds / 1e6:7.1f} MB/s, library "
              f"{nbytes / library_seconds / 1e6:6.1f} MB/s, ratio {library_seconds / seconds:5.1f}  decode "
              f"{nbytes / decode_seconds / 1e6:7.1f} MB/s  {'differs' if self.failures else 'equal'}", flush=True)
        return self.failures


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--megabytes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--form", action="append")
    parser.add_argument("--keep", type=pathlib.Path)
    arguments = parser.parse_args()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    ensure_library()
    import tokenizers
    text = Text(arguments.seed)
    text.special = ["<>"]  # a library that learns a special token from text yields it from text, which Tessera does not
    training = text.documents(1_500_000)
    text.special = SPECIAL
    documents = text.documents(int(arguments.megabytes * 1e6))
    print(f"tokenizers {tokenizers.__version__}, {len(documents)} documents", flush=True)
    failures = 0
    with tempfile.TemporaryDirectory() as temporary:
        directory = arguments.keep or pathlib.Path(temporary)
        for name, make in forms(tokenizers).items():
            if not arguments.form or name in arguments.form:
                failures += Comparison(arguments.program, directory, name, make(training), documents).all()
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
