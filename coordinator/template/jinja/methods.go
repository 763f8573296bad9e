package jinja

import "fmt"

type (
	stringMethod func(f *frame, s string, a arguments) (Value, error)
	dictMethod   func(f *frame, d *Dict, a arguments) (Value, error)
	listMethod   func(f *frame, l *List, a arguments) (Value, error)
)

// dictMethods are the methods of a dict that change nothing.
var dictMethods = map[string]dictMethod{
	"items": func(f *frame, d *Dict, a arguments) (Value, error) {
		if _, err := a.bind("items", 0); err != nil {
			return nil, err
		}
		return items(f, d)
	},
	"keys": func(f *frame, d *Dict, a arguments) (Value, error) {
		_, err := a.bind("keys", 0)
		return &List{Items: d.keys}, err
	},
	"values": func(f *frame, d *Dict, a arguments) (Value, error) {
		_, err := a.bind("values", 0)
		return &List{Items: d.values}, err
	},
	"get": func(f *frame, d *Dict, a arguments) (Value, error) {
		b, err := a.bind("get", 1, "key", "default")
		if err != nil {
			return nil, err
		}
		if v, ok := d.Get(b[0]); ok {
			return v, nil
		}
		if b.has(1) {
			return b[1], nil
		}
		return nil, nil
	},
	"copy": func(_ *frame, d *Dict, a arguments) (Value, error) {
		_, err := a.bind("copy", 0)
		return d, err // nothing can change either
	},
}

func items(f *frame, d *Dict) (*List, error) {
	if err := f.produce(64 * d.Len()); err != nil {
		return nil, err
	}
	l := &List{Items: make([]Value, d.Len())}
	for i := range l.Items {
		l.Items[i] = &List{Items: []Value{d.keys[i], d.values[i]}, Tuple: true}
	}
	return l, nil
}

func init() {
	// What a sandboxed template may not do has an error of its own.
	for _, name := range []string{"clear", "pop", "popitem", "setdefault", "update"} {
		dictMethods[name] = func(*frame, *Dict, arguments) (Value, error) { return nil, errImmutable(name) }
	}
	for _, name := range []string{"append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"} {
		listMethods[name] = func(*frame, *List, arguments) (Value, error) { return nil, errImmutable(name) }
	}
}

func errImmutable(name string) error {
	return fmt.Errorf("%s would change a value, which templates may not do", name)
}

var listMethods = map[string]listMethod{
	"index": func(f *frame, l *List, a arguments) (Value, error) {
		b, err := a.bind("index", 1, "value")
		if err != nil {
			return nil, err
		}
		for i, x := range l.Items {
			if same, err := f.equal(x, b[0]); same || err != nil {
				return int64(i), err
			}
		}
		return nil, fmt.Errorf("value is not in list")
	},
	"count": func(f *frame, l *List, a arguments) (Value, error) {
		b, err := a.bind("count", 1, "value")
		if err != nil {
			return nil, err
		}
		n := int64(0)
		for _, x := range l.Items {
			same, err := f.equal(x, b[0])
			if err != nil {
				return nil, err
			}
			n += asInt(same)
		}
		return n, nil
	},
	"copy": func(_ *frame, l *List, a arguments) (Value, error) {
		_, err := a.bind("copy", 0)
		return l, err
	},
}
