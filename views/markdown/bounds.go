package markdown

import (
	"bytes"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// Several of goldmark's parsers look again at everything before or after them,
// so that their cost grows with the square of the input, and a table or a
// reference can make output far larger than its source. These bounds are well
// above what people and models write and keep every input under a second.
const (
	maxSource = 256 << 10 // of a block; a longer one and all after it is plain text
	maxLines  = 20_000    // of a block, likewise; the block parser keeps a record for every line and level
	maxOutput = 4 << 20   // of a document; a block that would exceed it is plain text
	maxURL    = 2 << 10   // a longer address is not a link; one reference may be used many times
	maxDepth  = 16        // quotes and lists inside each other; further markers are text
	maxMarks  = 800       // characters that may open or close something, per block; further ones are text.
	//                       Two make a level of emphasis, and browsers give up at 512 levels
	maxWords = 2000   // places where a bare address may start, per block; further ones are text
	maxDefs  = 1000   // lines of a paragraph in which link definitions are looked for
	maxCells = 20_000 // of all tables of a document; a table that would exceed it is text
)

// blockParser finds the blocks of a document and leaves what is in them alone.
var blockParser = parser.NewParser(blockOptions()...)

func newParser() parser.Parser {
	marks, words := parser.NewContextKey(), parser.NewContextKey()
	mark := func(p parser.InlineParser) parser.InlineParser { return inline{p, marks, maxMarks} }
	return parser.NewParser(append(blockOptions(),
		parser.WithInlineParsers(
			util.Prioritized(extension.NewTaskCheckBoxParser(), 0),
			util.Prioritized(mark(parser.NewCodeSpanParser()), 100),
			util.Prioritized(mark(parser.NewLinkParser()), 200),
			util.Prioritized(mark(parser.NewAutoLinkParser()), 300),
			util.Prioritized(mark(parser.NewRawHTMLParser()), 400),
			util.Prioritized(mark(parser.NewEmphasisParser()), 500),
			util.Prioritized(mark(extension.NewStrikethroughParser()), 500),
			util.Prioritized(inline{extension.NewLinkifyParser(), words, maxWords}, 999),
		),
		parser.WithASTTransformers(
			util.Prioritized(extension.NewTableASTTransformer(), 0),
			util.Prioritized(linker{}, 100),
		),
	)...)
}

func blockOptions() []parser.Option {
	return []parser.Option{
		parser.WithBlockParsers(
			util.Prioritized(parser.NewSetextHeadingParser(), 100),
			util.Prioritized(parser.NewThematicBreakParser(), 200),
			util.Prioritized(container{parser.NewListParser()}, 300),
			util.Prioritized(parser.NewListItemParser(), 400),
			util.Prioritized(parser.NewCodeBlockParser(), 500),
			util.Prioritized(parser.NewATXHeadingParser(), 600),
			util.Prioritized(parser.NewFencedCodeBlockParser(), 700),
			util.Prioritized(container{parser.NewBlockquoteParser()}, 800),
			util.Prioritized(parser.NewHTMLBlockParser(), 900),
			util.Prioritized(parser.NewParagraphParser(), 1000),
		),
		parser.WithParagraphTransformers(
			util.Prioritized(definitions{parser.LinkReferenceParagraphTransformer}, 100),
			util.Prioritized(table{extension.NewTableParagraphTransformer()}, 200),
		),
	}
}

// container refuses to open below maxDepth others.
type container struct{ parser.BlockParser }

func (c container) Open(parent ast.Node, reader text.Reader, pc parser.Context) (ast.Node, parser.State) {
	depth := 0
	for n := parent; n != nil; n = n.Parent() {
		if k := n.Kind(); k == ast.KindList || k == ast.KindBlockquote {
			depth++
		}
	}
	if depth >= maxDepth {
		return nil, parser.NoChildren
	}
	return c.BlockParser.Open(parent, reader, pc)
}

// inline stops trying after max characters within one block that it may begin at.
// Parsers with the same key share the count.
type inline struct {
	parser.InlineParser
	key parser.ContextKey
	max int
}

type tally struct {
	block ast.Node
	n     int
}

func newTally() any { return new(tally) }

func (p inline) Parse(parent ast.Node, block text.Reader, pc parser.Context) ast.Node {
	t := pc.ComputeIfAbsent(p.key, newTally).(*tally)
	if t.block != parent {
		*t = tally{block: parent}
	}
	if t.n += run(block); t.n > p.max {
		return nil
	}
	return p.InlineParser.Parse(parent, block, pc)
}

// run is how many characters a parser takes at once: all of a row of those that open and
// close emphasis.
func run(block text.Reader) int {
	line, _ := block.PeekLine()
	if len(line) == 0 || !bytes.ContainsRune([]byte("*_~"), rune(line[0])) {
		return 1
	}
	return len(line) - len(bytes.TrimLeft(line, string(line[:1])))
}

// CloseBlock passes the call on, which embedding the interface would hide.
func (p inline) CloseBlock(parent ast.Node, block text.Reader, pc parser.Context) {
	if c, ok := p.InlineParser.(parser.CloseBlocker); ok {
		c.CloseBlock(parent, block, pc)
	}
}

// definitions leaves long paragraphs alone: each definition moves all lines after it.
type definitions struct{ parser.ParagraphTransformer }

func (d definitions) Transform(n *ast.Paragraph, reader text.Reader, pc parser.Context) {
	if n.Lines().Len() <= maxDefs {
		d.ParagraphTransformer.Transform(n, reader, pc)
	}
}

// table counts the cells a table could have before there is one: short rows are
// filled up to the width of the first, so that n bytes can ask for n² cells.
type table struct{ parser.ParagraphTransformer }

var cellsKey = parser.NewContextKey() // a tally of the document's cells

func (t table) Transform(n *ast.Paragraph, reader text.Reader, pc parser.Context) {
	rows, width := n.Lines().Len(), 0
	for i := range rows {
		line := n.Lines().At(i)
		width = max(width, 1+bytes.Count(line.Value(reader.Source()), []byte("|")))
	}
	cells := pc.ComputeIfAbsent(cellsKey, newTally).(*tally)
	if cells.n+rows*width > maxCells {
		return
	}
	t.ParagraphTransformer.Transform(n, reader, pc)
	if n.Parent() == nil || n.Lines().Len() < rows {
		cells.n += rows * width
	}
}
