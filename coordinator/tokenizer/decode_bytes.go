package tokenizer

import (
	"strconv"
	"unicode/utf8"
)

// byteLevelDecoder turns GPT-2's characters back into bytes and the bytes of all tokens into one text.
type byteLevelDecoder struct {
	next  stage
	whole whole
	bytes []byte // the beginning of a character that is not complete yet
}

func (d *byteLevelDecoder) push(f fragment) {
	token, ok := d.whole.add(f)
	if !ok {
		return
	}
	d.bytes = appendByteLevel(d.bytes, token)
	done := 0
	text := make([]byte, 0, len(d.bytes)+8)
	for done < len(d.bytes) {
		n, state := nextUTF8(d.bytes[done:])
		if state == utf8Incomplete {
			break
		}
		if state == utf8Valid {
			text = append(text, d.bytes[done:done+n]...)
		} else {
			text = append(text, replacement...)
		}
		done += n
	}
	d.bytes = append(d.bytes[:0], d.bytes[done:]...)
	if len(text) > 0 {
		d.next.push(fragment{text: string(text)})
	}
}

func (d *byteLevelDecoder) flush() {
	last := fragment{end: true}
	if len(d.bytes) > 0 {
		last.text = replacement // an incomplete character is one maximal invalid part
		d.bytes = nil
	}
	d.next.push(last)
	d.next.flush()
}

// byteFallbackDecoder turns runs of <0xNN> into text. A run that is not valid UTF-8 as a whole becomes one U+FFFD for each byte,
// so nothing of a run is certain before it ends.
type byteFallbackDecoder struct {
	next  stage
	whole whole
	run   []byte
}

func (d *byteFallbackDecoder) push(f fragment) {
	token, ok := d.whole.add(f)
	if !ok {
		return
	}
	if len(token) == 6 && token[:3] == "<0x" && token[5] == '>' {
		if b, err := strconv.ParseUint(token[3:5], 16, 8); err == nil {
			d.run = append(d.run, byte(b))
			return
		}
	}
	d.endRun()
	d.next.push(fragment{token, true})
}

func (d *byteFallbackDecoder) endRun() {
	if len(d.run) == 0 {
		return
	}
	if utf8.Valid(d.run) {
		d.next.push(fragment{string(d.run), true})
	} else {
		for range d.run {
			d.next.push(fragment{replacement, true})
		}
	}
	d.run = d.run[:0]
}

func (d *byteFallbackDecoder) flush() {
	d.endRun()
	d.next.flush()
}
