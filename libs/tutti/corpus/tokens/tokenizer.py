"""The tokenizer: byte-level BPE, named by its content.

Any text survives encoding and decoding by a tokenizer that was trained here; `<|endoftext|>` and reserved tokens are
never produced by text, only by their ids. Texts are encoded by the kernel of tutti.corpus.tokens.bytepairs where it
gives what the library `tokenizers` gives, else by that.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from tokenizers import Regex, Tokenizer
from tokenizers.pre_tokenizers import Split

from tutti.corpus.texts import require_texts
from tutti.corpus.tokens import bytepairs
from tutti.corpus.tokens.fidelity import is_lossless
from tutti.corpus.tokens.marks import FILE, Marks
from tutti.native.arrays import np, npt, pa
from tutti.records.canonical import bytes_digest, canonical_json, content_digest, parse_json
from tutti.records.errors import NotCanonical

EOS = "<|endoftext|>"
SPECIAL = re.compile(r"<\|[a-z][a-z0-9_]{0,30}\|>")
"""The spelling of a special token. The split pattern of Llama 3 never makes one piece of it."""
_BATCH = 64
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
# A little of everything that splits words, and of what does not follow from letters alone.
PROBE = (
    "I'll say it's 'Tis WE'VE don'T \u2019s '\u017f 'x  two  spaces\tand\ttabs \r\n\r\n  lines \n\n\n   end.\n  "
    "1234567 \u0663\u0664\u0665\u0666 x2y \u00bd ... !!! ---- ==== if(a[0]!=b){return&c;} _snake_case CamelCase "
    "caf\u00e9 cafe\u0301 \u4e2d\u6587\u5b57 \ud55c\uad6d\uc5b4 \u0627\u0644\u0639 \u0928\u092e\u0938 "
    "\u200b\u00a0\u3000\x1c\x85\ufeff \U0001f600\U0001f468\u200d\U0001f469 \0 aaaaaaaaaaaaaaaa <|endoftext|> "
)


def least_tokens(text: str) -> int:
    """A lower bound for the number of ids that any tokenizer with Llama 3's pattern gives a text: no id spans a cut."""
    return len(Split(Regex(bytepairs.LLAMA3_PATTERN), behavior="isolated").pre_tokenize_str(text))


@dataclass(frozen=True)
class Added:
    """An added token: its id, whether it is special, and whether it takes the spaces to its left and its right."""

    number: int
    special: bool
    left: bool
    right: bool


class TokenizerError(Exception):
    """A tokenizer can't be trained as asked, or its file does not hold."""


@dataclass(frozen=True)
class BytePairTokenizer:
    """A tokenizer; `artefact` is the `tokenizer.json` that Hugging Face reads, as canonical JSON.

    Of a tokenizer that others trained, it is an object of that and of its marks.
    """

    artefact: bytes

    @classmethod
    def of_others(cls, file: bytes, marks: Marks) -> BytePairTokenizer:
        """The tokenizer of others with this `tokenizer.json`. Raises NotCanonical."""
        parsed: Any = parse_json(file)
        return cls(canonical_json(marks.of(parsed)))

    @cached_property
    def version(self) -> str:
        """The content digest of the artefact: the `tokenizer_version` of datasets and checkpoints."""
        return content_digest(parse_json(self.artefact), kind="tokenizer")

    @property
    def artefact_digest(self) -> str:
        return bytes_digest(self.artefact)

    @cached_property
    def marks(self) -> Marks | None:
        """The marks of a tokenizer that others trained; None for one of ours."""
        parsed = json.loads(self.artefact)
        try:
            return Marks.read(parsed) if isinstance(parsed, dict) else None
        except ValueError as error:
            raise TokenizerError(f"not a tokenizer: {error}; fetch it again") from error

    @cached_property
    def file(self) -> bytes:
        """The `tokenizer.json` that Hugging Face reads, as canonical JSON."""
        return self.artefact if self.marks is None else canonical_json(json.loads(self.artefact)[FILE])

    @cached_property
    def vocabulary(self) -> int:
        """The number of ids: 256 bytes, the merges, the reserved tokens, and one for the end of a text.

        Of a tokenizer of others it is one more than the largest id.
        """
        if self.marks is None:
            return int(self._encoder.get_vocab_size())
        return 1 + max(self._encoder.get_vocab(with_added_tokens=True).values())

    @property
    def eos(self) -> int:
        """The id that is written behind a text."""
        return self.vocabulary - 1 if self.marks is None else self.marks.ends[0]

    @property
    def ends(self) -> tuple[int, ...]:
        """The ids that end a text, `eos` first."""
        return (self.eos,) if self.marks is None else self.marks.ends

    @cached_property
    def opening(self) -> tuple[int, ...]:
        """The ids that a tokenizer of others puts before every text; none of ours."""
        if self.marks is None:
            return ()
        whole, text = (self._encoder.encode("a", add_special_tokens=each).ids for each in (True, False))
        places = (at for at in range(len(whole)) if whole[at : at + len(text)] == text)
        return tuple(whole[: next(places, 0)])

    @cached_property
    def lossless(self) -> bool:
        """True if decoding gives every text back."""
        return self.marks is None or is_lossless(json.loads(self.file))

    @cached_property
    def added(self) -> Mapping[str, Added]:
        """The added tokens by their spelling, which no text encodes to."""
        found = sorted(self._encoder.get_added_tokens_decoder().items())
        return {each.content: Added(number, each.special, each.lstrip, each.rstrip) for number, each in found}

    @cached_property
    def reserved(self) -> Mapping[str, int]:
        """The ids of special tokens that stand for no text, by their spelling, without that of the end of a text."""
        added = self._encoder.get_added_tokens_decoder()
        named = {token.content: number for number, token in sorted(added.items())}
        if self.marks is not None:
            return {token: named[token] for token in self.marks.roles}
        return {token: number for token, number in named.items() if token != EOS}

    def extended(self, tokens: Iterable[str]) -> BytePairTokenizer:
        """Return this tokenizer with `tokens` reserved too, with the ids before the end of a text, which moves up.

        All other ids are the same. A tokenizer of others has them behind all of its ids, and keeps its ends. Raises
        TokenizerError for a token that is text or no special token.
        """
        if self.marks is not None:
            return self._appended(self.marks, tokens)
        parsed = json.loads(self.artefact)
        *added, end = parsed["added_tokens"]
        more = [token for token in tokens if token not in self.reserved]
        for token in more:
            if not SPECIAL.fullmatch(token) or token == EOS or token in parsed["model"]["vocab"]:
                raise TokenizerError(f"{token!r} cannot be reserved; expected a token such as <|user|> that is no text")
        for number, token in enumerate([*more, EOS], end["id"]):
            added.append({**end, "content": token, "id": number})
        return BytePairTokenizer(canonical_json({**parsed, "added_tokens": added}))

    @classmethod
    def load(cls, artefact: bytes, *, expected_version: str) -> BytePairTokenizer:
        """Raises TokenizerError unless `artefact` is the tokenizer of that version."""
        try:
            tokenizer = cls(artefact)
            version = tokenizer.version
        except NotCanonical as error:
            raise TokenizerError(f"not a tokenizer.json: {error}; fetch it again") from error
        if version != expected_version:
            raise TokenizerError(
                f"the tokenizer is damaged: version {version}, expected {expected_version}; fetch it again"
            )
        if tokenizer.marks is None and tokenizer._encoder.token_to_id(EOS) != tokenizer.eos:
            raise TokenizerError(f"the tokenizer has no {EOS} as its last id; train it with this version")
        return tokenizer

    def encode(self, text: str) -> npt.NDArray[np.uint32]:
        """The ids of `text`, without `eos`."""
        return next(self.encode_all((text,)))

    def encode_all(self, texts: Iterable[str]) -> Iterator[npt.NDArray[np.uint32]]:
        """The ids of each text, in order, a batch of texts at a time."""
        iterator = iter(texts)
        while batch := list(itertools.islice(iterator, _BATCH)):
            ids, counts = self.encode_texts(pa.array(batch, pa.large_string()))
            yield from np.split(ids, np.cumsum(counts[:-1]))

    def encode_behind(self, texts: Iterable[str]) -> Iterator[npt.NDArray[np.uint32]]:
        """The ids of each text where an added token is before it: no space is put before it."""
        inner = self._inner_encoder
        if inner is None:
            yield from self.encode_all(texts)
            return
        iterator = iter(texts)
        while batch := list(itertools.islice(iterator, _BATCH)):
            for each in inner.encode_batch_fast(batch, add_special_tokens=False):
                yield np.array(each.ids, np.uint32)

    def encode_texts(self, texts: pa.Array) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
        """The ids of all texts of a string array one behind the other, without `eos`, and how many each has.

        Threads may call it at once. Raises UnreadableTexts.
        """
        return self._kernel.encode(texts) if self._kernel else self._by_library(texts)

    @cached_property
    def byte_lengths(self) -> npt.NDArray[np.int64]:
        """The number of bytes of each id; those of all ids of a text are its bytes of UTF-8, if it is lossless."""
        if self.marks is not None:
            return np.array([len(each) for each in self.spelled], np.int64)
        lengths = np.zeros(self.vocabulary, np.int64)
        for token, number in self._encoder.get_vocab(with_added_tokens=True).items():
            lengths[number] = len(token)  # it is written in an alphabet that has one character for each byte
        return lengths

    @cached_property
    def spelled(self) -> tuple[bytes, ...]:
        """The bytes of UTF-8 of each id, of which one may be part of a character; special tokens have none."""
        found, byte_of = [b""] * self.vocabulary, {each: byte for byte, each in enumerate(bytepairs.spelling())}
        special = {*self._encoder.get_added_tokens_decoder(), *self.ends}
        for token, number in self._encoder.get_vocab(with_added_tokens=True).items():
            if number in special:
                continue
            if self.marks is None or set(token) <= byte_of.keys():
                found[number] = bytes(byte_of[each] for each in token)
            else:  # words with a mark for spaces, and bytes by their numbers
                byte = _BYTE.fullmatch(token)
                found[number] = bytes([int(byte[1], 16)]) if byte else token.replace("\u2581", " ").encode()
        return tuple(found)

    def spelling_of(self, token: int) -> str:
        """The spelling of an id in `tokenizer.json`. Raises KeyError."""
        found = self._encoder.id_to_token(token)
        if found is None:
            raise KeyError(token)
        return str(found)

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids; `eos` reads `<|endoftext|>`, and bytes that are no UTF-8 read U+FFFD."""
        return str(self._encoder.decode([int(token) for token in ids], skip_special_tokens=False))

    def __reduce__(self) -> tuple[type[BytePairTokenizer], tuple[bytes]]:
        """Pickled by its file: an encoder that was pickled would take text that spells `<|endoftext|>` for the end."""
        return BytePairTokenizer, (self.artefact,)

    def _by_library(self, texts: pa.Array) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
        require_texts(texts)
        found = self._text_encoder.encode_batch_fast(texts.to_pylist(), add_special_tokens=False)
        ids = [np.array(each.ids, np.uint32) for each in found]
        return np.concatenate([np.zeros(0, np.uint32), *ids]), np.array([len(each) for each in ids], np.int64)

    @cached_property
    def _kernel(self) -> bytepairs.Encoder | None:
        """None where there is no kernel, or where it would not give what the library gives."""
        library, merges = bytepairs.native().library, self._merges()
        if library is None or merges is None:
            return None
        encoder, probe = bytepairs.Encoder(library, merges), pa.array([PROBE])
        return encoder if np.array_equal(encoder.encode(probe)[0], self._by_library(probe)[0]) else None

    def _merges(self) -> bytepairs.Merges | None:
        """The merges as ids; None for a file that was not made by this version or has another pattern."""
        try:
            parsed = json.loads(self.file)
            split, model = parsed["pre_tokenizer"]["pretokenizers"][0], parsed["model"]
            if split["pattern"] != {"Regex": bytepairs.LLAMA3_PATTERN} or parsed["normalizer"] is not None:
                return None
            ids: dict[str, int] = model["vocab"]
            if model.get("ignore_merges") and not self._merged(ids):
                return None
            if [ids[character] for character in bytepairs.spelling()] != bytepairs.byte_ids().tolist():
                return None
            rows = [(ids[left], ids[right], ids[left + right]) for left, right in model["merges"]]
        except (KeyError, TypeError, ValueError, IndexError):
            return None
        return np.array(rows, np.uint32).reshape(-1, 3)

    def _merged(self, words: Iterable[str]) -> bool:
        """True if merges make each entry of the vocabulary whole: taking whole words from it then changes nothing."""
        parsed = json.loads(self.file)
        model = Tokenizer.from_str(json.dumps({**parsed, "model": {**parsed["model"], "ignore_merges": False}})).model
        return all(len(model.tokenize(word)) == 1 for word in words)

    @cached_property
    def _text_encoder(self) -> Tokenizer:
        """The encoder of texts: without added tokens where some are not special, which the library finds in texts."""
        if all(token.special for token in self._encoder.get_added_tokens_decoder().values()):
            return self._encoder
        return _whole(Tokenizer.from_str(json.dumps({**json.loads(self.file), "added_tokens": []})))

    @cached_property
    def _inner_encoder(self) -> Tokenizer | None:
        """The encoder of texts behind an added token; None where it is that of all texts."""
        file = json.loads(self.file)
        pre = file.get("pre_tokenizer") or {}
        parts = pre.get("pretokenizers") or [pre]
        if not any(each.get("type") == "Metaspace" and each.get("prepend_scheme") == "first" for each in parts):
            return None
        for each in parts:
            if each.get("type") == "Metaspace":
                each["prepend_scheme"] = "never"
        return _whole(Tokenizer.from_str(json.dumps({**file, "added_tokens": []})))

    def _appended(self, marks: Marks, tokens: Iterable[str]) -> BytePairTokenizer:
        """A tokenizer of others with these tokens behind all of its ids; one that it has already is only marked."""
        parsed, wanted = json.loads(self.file), list(tokens)
        known = {each["content"] for each in parsed["added_tokens"]}
        more = [token for token in wanted if token not in known]
        for token in more:
            if not SPECIAL.fullmatch(token) or token in parsed["model"]["vocab"]:
                raise TokenizerError(f"{token!r} cannot be reserved; expected a token such as <|user|> that is no text")
        plain = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True}
        added = [plain | {"content": token, "id": number} for number, token in enumerate(more, self.vocabulary)]
        roles = (*marks.roles, *(token for token in wanted if token not in marks.roles))
        file = {**parsed, "added_tokens": [*parsed["added_tokens"], *added]}
        return BytePairTokenizer(canonical_json(replace(marks, roles=roles).of(file)))

    @cached_property
    def _encoder(self) -> Tokenizer:
        try:
            encoder = _whole(Tokenizer.from_buffer(self.file))
        except Exception as error:  # the library raises bare Exception
            raise TokenizerError(f"not a tokenizer.json: {error}; fetch it again") from error
        encoder.encode_special_tokens = True  # text that spells a special token is text
        return encoder


def _whole(encoder: Tokenizer) -> Tokenizer:
    """The encoder, without the truncation and the padding that a foreign file may ask for."""
    encoder.no_truncation()
    encoder.no_padding()
    return encoder
