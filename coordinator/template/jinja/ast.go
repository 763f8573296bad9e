package jinja

// node is a statement.
type node interface {
	exec(f *frame) error
}

// expr is an expression.
type expr interface {
	eval(f *frame) (Value, error)
}

// Statements.
type (
	textNode   struct{ text string }
	outputNode struct {
		value expr
		line  int
	}
	ifNode struct {
		conditions []expr // of if and the elifs
		bodies     [][]node
		otherwise  []node
		line       int
	}
	forNode struct {
		target    target
		over      expr
		filter    expr // nil: all
		body      []node
		otherwise []node
		recursive bool
		line      int
	}
	setNode struct {
		target target
		value  expr
		line   int
	}
	// setBlockNode is {% set x %} … {% endset %}, and with a nil target {% filter … %} … {% endfilter %}.
	setBlockNode struct {
		target  target
		filters expr // applied to a blockValue; nil: none
		body    []node
		line    int
	}
	macroNode struct {
		name       string
		parameters []parameter
		body       []node
		line       int
		// The body mentions these names; without them, arguments that no parameter takes are an error.
		varargs, kwargs, caller bool
	}
	callNode struct {
		call *callExpr
		macroNode
	}
	withNode struct {
		targets []target
		values  []expr
		body    []node
		line    int
	}
	// scopeNode is a block whose assignments end with it ({% generation %}).
	scopeNode   struct{ body []node }
	controlNode struct{ control error } // break, continue
)

type parameter struct {
	name     string
	fallback expr // nil: undefined
}

// target is what can be assigned to: a name, an attribute of a namespace, or several names.
type target struct {
	name      string
	attribute string
	several   []target
}

// Expressions.
type (
	literal  struct{ value Value }
	nameExpr struct {
		name string
		line int
	}
	listExpr struct {
		items []expr
		tuple bool
	}
	dictExpr struct{ keys, values []expr }
	attrExpr struct {
		object expr
		name   string
		line   int
	}
	itemExpr struct {
		object, key expr
		line        int
	}
	sliceExpr struct{ start, stop, step expr } // only as the key of an itemExpr; nil: not given
	callExpr  struct {
		callee    expr
		arguments argumentExprs
		line      int
	}
	filterExpr struct {
		value     expr // nil: the block's text
		name      string
		arguments argumentExprs
		line      int
	}
	testExpr struct {
		value     expr
		name      string
		arguments argumentExprs
		negated   bool
		line      int
	}
	conditionExpr struct{ condition, then, otherwise expr } // otherwise nil: undefined
	notExpr       struct{ value expr }
	logicExpr     struct {
		operands []expr
		and      bool
	}
	// binaryExpr is a chain of operators of one precedence, from the left: a + b - c.
	binaryExpr struct {
		first     expr
		operators []string
		others    []expr
		line      int
	}
	unaryExpr struct {
		operator string
		value    expr
		line     int
	}
	// compareExpr is a chain: a < b < c.
	compareExpr struct {
		first     expr
		operators []string
		others    []expr
		line      int
	}
	concatExpr struct{ parts []expr }
	// blockValue is the text of the block around a filter.
	blockValue struct{}
)

type argumentExprs struct {
	positional []expr
	names      []string // of the keyword arguments
	named      []expr
	spread     expr // *args
	spreadMap  expr // **kwargs
}
