#!/usr/bin/env python3
"""Goldens for each stage of coordinator/tokenizer on its own, made by Hugging Face tokenizers.

usage: make_stages_golden.py > stages_golden.json        (pip install tokenizers==0.23.3)
"""
import json, sys
from tokenizers import Tokenizer

BASE = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None, "pre_tokenizer": None, "post_processor": None, "decoder": None,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                  "ignore_merges": False, "vocab": {}, "merges": []}}


def tokenizer(**parts):
    j = json.loads(json.dumps(BASE))
    j["model"].update(parts.pop("model", {}))
    j.update(parts)
    return j, Tokenizer.from_str(json.dumps(j))


TEXTS = ["", " ", "a", "Hello, world!  It's 2024-06-07.", "  two  spaces ", "tab\tnl\n\nnl\r\nend ", "中文English混合123", "1234567 ٣٤ Ⅷ ½", "'S 's ſ 'ſ K\u212a kK", "a_b-c.d a&&b [x] a&b ]", "<b>x</b>",
         "caf\u00e9 cafe\u0301 \u1e9b\u0323 \ufb01 \u2160 \uac00 \u1100\u1161\u11a8", "\u0130I\u0131i \u03a3\u03a3 \u1e9e", "\U0001f468\u200d\U0001f469 \U0001f600", "x\u00a0y\u2003z\u3000w\x1c\x85\u200b\ufeff", "▁a▁▁b", "aaabbb aAbB AB", "line1\nline2\n c\nc",
         "a" + "\u0301" * 40 + "b", "a" + "\u0323\u0301" * 20, "\u0f71\u0f72\u0f74" * 12, "ab gh 0f", "\u24b6\u1d2c x\u0301y"]

PATTERNS = [r"\p{N}{1,3}+", r"\p{N}{1,3}?", r"\p{N}{2}?", r"a++b", r"a?+ab", r"^b|c$", r"^\s+|\s+$", r".", r"[a&&b]+", r"[a-z&&[^b]]+", r"[\p{L}&&[^\p{Han}]]+", r"[^a-c&&[^\s]]+", r"[[:alpha:]]+", r"[[:digit:][:space:]]+", r"[^[:punct:]]+", r"[[:alnum:]]+", r"[[:upper:]]+", r"[[:lower:]]+", r"[[:word:]]+", r"[[:blank:]]+", r"[[:cntrl:]]+", r"[[:xdigit:]]+", r"[[:ascii:]]+", r"\p{Alpha}+", r"\P{Punct}+", r"\p{^Alnum}+", r"[\p{Space}\p{Upper}]+", r"\h+", r"\H+", r"[\h]+",
            r"[\p{L}[0-9]]+", r"[^\p{L}[0-9]]+", r"(?i:'s)", r"(?i)k|b", r"a(?i)b|c", r"\s+\z", r"\p{Han}+", r"\d+", r"\w+", r"[\w]+", r"\W+", r"x*", r"(?<!a)b", r"(?<=a)b", r"\p{Lu}|\p{^L}", r"\P{L}+", r"\x{4e2d}|\u4e2d", r"\x41", r"\R", r"(?m).+", r"[^\S\n]+",
            r"\p{Emoji}", r"[\[\]]", r"[]a]+", r"[a\-z]+", r"[a-]+", r"[-a]+", r"[一-龥]+", r"\s", r"\S+", r"(a|b)\1", r"(?:ab)+|a", r"a{2,}", r"a{,2}b", r"a{2}", r"{a}|a{b", r"(?>a+)b", r"(?#comment)a", r"\t|\n", r"\bH|o\b", r"\A\s*", r"[\s\S]{3}", r"\p{L}\p{M}*", r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+",
            r"[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s", r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t)?|[\p{Han}]+|\p{N}{1,3}|\s+"]
BAD = ["(", "a)", "[a", "*a", r"\p{Nope}", "[b-a]", "(?<n", r"\xE9"]


def split(pattern, behavior="Isolated", invert=False):
    return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}


def byte_level(space, regex):
    return {"type": "ByteLevel", "add_prefix_space": space, "trim_offsets": True, "use_regex": regex}


PRE = [split({"Regex": p}) for p in PATTERNS]
PRE += [split({"Regex": p}, b, i) for p in (r"\s+", r"\p{N}", "a|b") for b in ("Isolated", "Removed", "Contiguous", "MergedWithPrevious", "MergedWithNext") for i in (False, True)]
PRE += [split({"String": s}, b) for s in (" ", "▁", ".") for b in ("Isolated", "MergedWithNext")]
PRE += [byte_level(s, r) for s in (False, True) for r in (False, True)]
PRE += [{"type": "Digits", "individual_digits": d} for d in (False, True)]
PRE += [{"type": "Metaspace", "replacement": "▁", "prepend_scheme": s, "split": c} for s in ("always", "first", "never") for c in (False, True)]
PRE += [{"type": "Metaspace", "replacement": "_", "add_prefix_space": True}, {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never", "add_prefix_space": False}]
PRE += [{"type": "Sequence", "pretokenizers": [split({"Regex": r"\p{N}"}), byte_level(True, True), split({"String": "Ġ"}, "MergedWithNext")]},
        {"type": "Sequence", "pretokenizers": [split({"String": " "}, "Removed"), {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": True}]},
        {"type": "Sequence", "pretokenizers": []}]
NORM = [{"type": t} for t in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase")]
NORM += [{"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}, {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "<>"}, {"type": "Replace", "pattern": {"Regex": r"\s+$"}, "content": ""},
         {"type": "Sequence", "normalizers": [{"type": "NFKC"}, {"type": "Lowercase"}, {"type": "Prepend", "prepend": "x"}]}, {"type": "Sequence", "normalizers": []}]
DEC = [{"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}, {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "Replace", "pattern": {"Regex": "a+"}, "content": "-"},
       {"type": "Strip", "content": " ", "start": 1, "stop": 0}, {"type": "Strip", "content": "a", "start": 2, "stop": 0}, {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
       {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never", "split": True},
       {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
       {"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "Replace", "pattern": {"String": "ab"}, "content": "-"}, {"type": "Strip", "content": "a", "start": 1, "stop": 1}]},
       {"type": "Sequence", "decoders": [{"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}, {"type": "Replace", "pattern": {"Regex": "a+"}, "content": "-"}]},
       {"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}]}]
TOKENS = [["a"], ["▁a", "▁▁b", "c▁"], ["Ġhello", "Ã©", "Ġ", "ĊĊ", "é b", "<x y>"], ["<0xE4>", "<0xB8>", "<0xAD>", "x", "<0xFF>", "<0x41>", "y", "<0xE4>"], ["<0x41>", "<0x4>", "<0xZZ>", "<0x42>"], ["a", "a", "ab", "ba", "a", "bab", "aa"], ["  a ", " b", "  "],
          ["Ã", "©", "ä¸", "Ń", "ð", "Ł", "Ġx", "â"], ["aab", "aaaa", "b"], ["ab", "a", "b", "x", "aba"]]

VOCAB = {t: i for i, t in enumerate(["<unk>", "▁", "a", "b", "c", "h", "e", "l", "o", "w", "r", "d", "ab", "▁a", "he", "ll", "hell", "hello", "▁hello", "A", " ", "  ", "x", "y", "\n", "<", ">", "s", "aa", "aaa", "<0x41>", "é"])}
MERGES = [["a", "b"], ["▁", "a"], ["h", "e"], ["l", "l"], ["he", "ll"], ["hell", "o"], ["▁", "hello"], ["a", "a"], ["aa", "a"]]


def added(content, **flags):
    return {"id": 100, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False, **flags}


FULL_TEXTS = TEXTS + ["hello hello", "a <s> b", "a<s>b <s>  c", "x<m>y <m> _<m> a<m>", "helloab", "aaaaaaa", "ABAB <S> a", "  <s>  ", "<s><s>", "a<l><r>b", "a  <l>  b", "a  <r>  b", "<r>  <l>", "hello<s>hello", "[a][ab]", "zzhello zz", "AbC dEf", "é<0x41>A"]
FULL = {
    "plain": dict(),
    "unknown": dict(model={"unk_token": "<unk>"}),
    "fused unknown": dict(model={"unk_token": "<unk>", "fuse_unk": True}),
    "partial byte fallback": dict(model={"unk_token": "<unk>", "byte_fallback": True}),
    "ignore merges": dict(model={"ignore_merges": True, "unk_token": "<unk>"}, pre_tokenizer=split({"String": " "}, "MergedWithNext")),
    "affixes": dict(model={"continuing_subword_prefix": "##", "end_of_word_suffix": "</w>", "vocab": {"a": 0, "##b": 1, "##c</w>": 2, "ab": 3, "abc</w>": 4, "##b</w>": 5, "a</w>": 6}, "merges": [["a", "##b"], ["ab", "##c</w>"]]}, pre_tokenizer=split({"String": " "}, "Removed")),
    "added": dict(added_tokens=[added("<s>", special=True), added("<m>", single_word=True), added("<l>", lstrip=True), added("<r>", rstrip=True, special=True), added("hello"), added("[a"), added("[ab]"), added("")]),
    "added normalized": dict(normalizer={"type": "Lowercase"}, added_tokens=[added("<S>", normalized=True), added("ABAB", normalized=True), added("AbC", normalized=False), added("h", normalized=True, single_word=True)]),
    "added with prepend": dict(normalizer={"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]}, added_tokens=[added("<s>", special=True), added("hello", normalized=True)],
                               decoder=DEC[9]),
    "added with metaspace": dict(pre_tokenizer={"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": True}, added_tokens=[added("<s>", special=True, rstrip=True)], decoder=DEC[7]),
    "spaces as tokens": dict(added_tokens=[added("  ", normalized=True), added("   ", normalized=True), added(" a", normalized=True)]),
    "template": dict(added_tokens=[added("<s>", special=True)], post_processor={"type": "Sequence", "processors": [{"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True}, {"type": "TemplateProcessing", "single": [
        {"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "end", "type_id": 0}}], "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}], "special_tokens": {"<s>": {"id": "<s>", "ids": [len(VOCAB)], "tokens": ["<s>"]}, "end": {"id": "end", "ids": [2, 3], "tokens": ["a", "b"]}}}]}),
}

if __name__ == "__main__":
    out = {"pre_tokenizers": [], "bad_patterns": [], "normalizers": [], "decoders": [], "tokenizers": []}
    for spec in PRE:
        t = tokenizer(pre_tokenizer=spec)[1]
        out["pre_tokenizers"].append({"spec": spec, "cases": [{"text": x, "pieces": [p for p, _ in t.pre_tokenizer.pre_tokenize_str(x)]} for x in TEXTS]})
    for p in BAD:
        try:
            tokenizer(pre_tokenizer=split({"Regex": p}))
            raise SystemExit("no error: " + p)
        except Exception:
            out["bad_patterns"].append(p)
    for spec in NORM:
        t = tokenizer(normalizer=spec)[1]
        out["normalizers"].append({"spec": spec, "cases": [{"text": x, "normalized": t.normalizer.normalize_str(x)} for x in TEXTS]})
    for spec in DEC:
        t = tokenizer(decoder=spec)[1]
        cases = []
        for x in TOKENS:
            try:
                cases.append({"tokens": x, "text": t.decoder.decode(x)})
            except BaseException:  # Strip of both ends panics on a token of stripped characters only
                pass
        out["decoders"].append({"spec": spec, "cases": cases})
    for name, parts in FULL.items():
        model = {"vocab": VOCAB, "merges": MERGES, **parts.pop("model", {})}
        j, t = tokenizer(model=model, **parts)
        cases = []
        for x in FULL_TEXTS:
            ids = t.encode(x, add_special_tokens=False).ids
            cases.append({"text": x, "ids": ids, "with_special": t.encode(x, add_special_tokens=True).ids, "decoded": t.decode(ids, skip_special_tokens=False), "decoded_skip": t.decode(ids, skip_special_tokens=True)})
        out["tokenizers"].append({"name": name, "tokenizer": j, "cases": cases})
    json.dump(out, sys.stdout, ensure_ascii=True, indent=None, separators=(",", ":"))
