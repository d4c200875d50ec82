package diff

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

const git = `diff --git a/x.go b/x.go
index 83db48f..bf2a3c1 100644
--- a/x.go
+++ b/x.go
@@ -1,3 +1,4 @@ func main() {
 one
-two
+TWO
+2
 three
@@ -10 +11,2 @@
 ten
+eleven
\ No newline at end of file
`

func TestParse(t *testing.T) {
	body := []Line{{Hunk, "@@ -1,2 +1,2 @@", 1, 1}, {Context, "a", 1, 1}, {Minus, "b", 2, 0}, {Plus, "c", 0, 2}}
	bare := []Line{{Hunk, "@@", 0, 0}, {Context, "a", 0, 0}, {Minus, "b", 0, 0}, {Plus, "c", 0, 0}}
	const hunk = "@@ -1,2 +1,2 @@\n a\n-b\n+c\n"
	for _, c := range []struct {
		name, in string
		want     []File
	}{
		{"empty", "", nil},
		{"blank", "\n\n\n", nil},
		{"git", git, []File{{Name: "x.go", Kind: Update, Added: 3, Removed: 1, Lines: []Line{
			{Hunk, "@@ -1,3 +1,4 @@ func main() {", 1, 1}, {Context, "one", 1, 1}, {Minus, "two", 2, 0}, {Plus, "TWO", 0, 2}, {Plus, "2", 0, 3}, {Context, "three", 3, 4},
			{Hunk, "@@ -10 +11,2 @@", 10, 11}, {Context, "ten", 10, 11}, {Plus, "eleven", 0, 12}, {Note, `\ No newline at end of file`, 0, 0},
		}}}},
		{"plain names with times", "--- src/x.c.orig\t2026-01-01 10:00:00\n+++ src/x.c\t2026-01-02 10:00:00 +0100\n" + hunk,
			[]File{{Name: "src/x.c", OldName: "src/x.c.orig", Kind: Update, Added: 1, Removed: 1, Lines: body}}},
		{"names in a real folder a", "--- a/x\n+++ a/x\n" + hunk, []File{{Name: "a/x", Kind: Update, Added: 1, Removed: 1, Lines: body}}},
		{"two files without diff lines", "--- a/x\n+++ b/x\n" + hunk + "--- a/y\n+++ b/y\n" + hunk,
			[]File{{Name: "x", Kind: Update, Added: 1, Removed: 1, Lines: body}, {Name: "y", Kind: Update, Added: 1, Removed: 1, Lines: body}}},
		{"a gap between files", "--- a/x\n+++ b/x\n" + hunk + "\n\n--- a/y\n+++ b/y\n" + hunk,
			[]File{{Name: "x", Kind: Update, Added: 1, Removed: 1, Lines: body}, {Name: "y", Kind: Update, Added: 1, Removed: 1, Lines: body}}},
		{"counts too large, next file by diff", strings.Replace("--- a/x\n+++ b/x\n"+hunk, "1,2 +1,2", "1,9 +1,9", 1) + "diff --git a/y b/y\n" + hunk,
			[]File{{Name: "x", Kind: Update, Added: 1, Removed: 1, Lines: append([]Line{{Hunk, "@@ -1,9 +1,9 @@", 1, 1}}, body[1:]...)}, {Name: "y", Kind: Update, Added: 1, Removed: 1, Lines: body}}},
		{"counts too large, next file by names", strings.Replace("--- a/x\n+++ b/x\n"+hunk, "1,2 +1,2", "1,9 +1,9", 1) + "--- a/y\n+++ b/y\n" + hunk,
			[]File{{Name: "x", Kind: Update, Added: 1, Removed: 1, Lines: append([]Line{{Hunk, "@@ -1,9 +1,9 @@", 1, 1}}, body[1:]...)}, {Name: "y", Kind: Update, Added: 1, Removed: 1, Lines: body}}},
		{"counts too small", "@@ -1 +1 @@\n a\n-b\n+c\n d\n", []File{{Kind: Update, Added: 1, Removed: 1, Lines: []Line{{Hunk, "@@ -1 +1 @@", 1, 1}, {Context, "a", 1, 1}, {Minus, "b", 2, 0}, {Plus, "c", 0, 2}, {Context, "d", 3, 3}}}}},
		{"lines that look like names", "--- a/x.sql\n+++ b/x.sql\n@@ -1,2 +1,2 @@\n a\n--- b\n+++ c\n@@ -9 +9 @@\n-d\n", []File{{Name: "x.sql", Kind: Update, Added: 1, Removed: 2, Lines: []Line{
			{Hunk, "@@ -1,2 +1,2 @@", 1, 1}, {Context, "a", 1, 1}, {Minus, "-- b", 2, 0}, {Plus, "++ c", 0, 2}, {Hunk, "@@ -9 +9 @@", 9, 9}, {Minus, "d", 9, 0}}}}},
		{"a removed line that looks like a name", "@@ -1,2 +1 @@\n--- b\n a\n", []File{{Kind: Update, Removed: 1, Lines: []Line{{Hunk, "@@ -1,2 +1 @@", 1, 1}, {Minus, "-- b", 1, 0}, {Context, "a", 2, 1}}}}},
		{"names first in a bare hunk", "@@\n--- b\n+++ c\n", []File{{Kind: Update, Added: 1, Removed: 1, Lines: []Line{{Hunk, "@@", 0, 0}, {Minus, "-- b", 0, 0}, {Plus, "++ c", 0, 0}}}}},
		{"bare hunk", "@@\n a\n-b\n+c\n", []File{{Kind: Update, Added: 1, Removed: 1, Lines: bare}}},
		{"bare hunks in two files", "--- a/x\n+++ b/x\n@@\n a\n-b\n+c\n--- a/y\n+++ b/y\n@@\n a\n-b\n+c\n", []File{{Name: "x", Kind: Update, Added: 1, Removed: 1, Lines: bare}, {Name: "y", Kind: Update, Added: 1, Removed: 1, Lines: bare}}},
		{"broken hunk lines", "@@ -1,x +1 @@\n@@ -a +b\n@@ - + @@\n@@  \n@@ -99999999999 +1 @@\n@@@ -1 -1 +1 @@@\n+a\n", []File{{Kind: Update, Added: 1, Lines: []Line{
			{Hunk, "@@ -1,x +1 @@", 0, 0}, {Hunk, "@@ -a +b", 0, 0}, {Hunk, "@@ - + @@", 0, 0}, {Hunk, "@@  ", 0, 0}, {Hunk, "@@ -99999999999 +1 @@", 0, 0}, {Hunk, "@@@ -1 -1 +1 @@@", 0, 0}, {Plus, "a", 0, 0}}}}},
		{"no headers at all", "-a\n+b\n c\nd\n", []File{{Kind: Update, Added: 1, Removed: 1, Lines: []Line{{Minus, "a", 0, 0}, {Plus, "b", 0, 0}, {Note, " c", 0, 0}, {Note, "d", 0, 0}}}}},
		{"no diff at all", "nothing changed", []File{{Kind: Update, Lines: []Line{{Note, "nothing changed", 0, 0}}}}},
		{"only the new name", "+++ b/x\n" + hunk, []File{{Name: "x", Kind: Update, Added: 1, Removed: 1, Lines: body}}},
		{"only the old name", "--- a/x\n" + hunk, []File{{Name: "x", Kind: Update, Added: 1, Removed: 1, Lines: body}}},
		{"words before", "Fix it\n\ndiff --git a/x.go b/x.go\n" + hunk, []File{{Kind: Update, Lines: []Line{{Note, "Fix it", 0, 0}}}, {Name: "x.go", Kind: Update, Added: 1, Removed: 1, Lines: body}}},
		{"blank context that lost its sign", "@@ -1,3 +1,3 @@\n a\n\n-b\n+c\n", []File{{Kind: Update, Added: 1, Removed: 1, Lines: []Line{{Hunk, "@@ -1,3 +1,3 @@", 1, 1}, {Context, "a", 1, 1}, {Context, "", 2, 2}, {Minus, "b", 3, 0}, {Plus, "c", 0, 3}}}}},
		{"a line without a sign in a hunk", "@@ -1,2 +1,2 @@\n a\n...\n-b\n+c\n", []File{{Kind: Update, Added: 1, Removed: 1, Lines: []Line{body[0], body[1], {Note, "...", 0, 0}, body[2], body[3]}}}},
		{"mail signature", "--- a/x\n+++ b/x\n" + hunk + "-- \n2.39.0\n\n", []File{{Name: "x", Kind: Update, Added: 1, Removed: 1, Lines: append(body[:4:4], Line{Note, "-- ", 0, 0}, Line{Note, "2.39.0", 0, 0})}}},
		{"signs without a hunk after one", hunk + "-- \n+x\ndiff --git a/y b/y\n+x\n-y\n", []File{{Kind: Update, Added: 2, Removed: 1, Lines: append(body[:4:4], Line{Note, "-- ", 0, 0}, Line{Plus, "x", 0, 0})}, {Name: "y", Kind: Update, Added: 1, Removed: 1, Lines: []Line{{Plus, "x", 0, 0}, {Minus, "y", 0, 0}}}}},
		{"new file", "diff --git a/x b/x\nnew file mode 100644\nindex 0000000..bf2a3c1\n--- /dev/null\n+++ b/x\n@@ -0,0 +1,2 @@\n+a\n+b\n", []File{{Name: "x", Kind: Add, Added: 2, Lines: []Line{{Hunk, "@@ -0,0 +1,2 @@", 0, 1}, {Plus, "a", 0, 1}, {Plus, "b", 0, 2}}}}},
		{"new file without git", "--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+a\n--- /dev/null\n+++ y\n@@ -0,0 +1 @@\n+a\n", []File{
			{Name: "x", Kind: Add, Added: 1, Lines: []Line{{Hunk, "@@ -0,0 +1 @@", 0, 1}, {Plus, "a", 0, 1}}}, {Name: "y", Kind: Add, Added: 1, Lines: []Line{{Hunk, "@@ -0,0 +1 @@", 0, 1}, {Plus, "a", 0, 1}}}}},
		{"new program", "diff --git a/x b/x\nnew file mode 100755\n", []File{{Name: "x", Kind: Add, Lines: []Line{{Note, "new file mode 100755", 0, 0}}}}},
		{"mode only", "diff --git a/x b/x\nold mode 100644\nnew mode 100755\n", []File{{Name: "x", Kind: Update, Lines: []Line{{Note, "old mode 100644", 0, 0}, {Note, "new mode 100755", 0, 0}}}}},
		{"deleted file", "diff --git a/x b/x\ndeleted file mode 100644\n--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n", []File{{Name: "x", Kind: Delete, Removed: 1, Lines: []Line{{Hunk, "@@ -1 +0,0 @@", 1, 0}, {Minus, "a", 1, 0}}}}},
		{"deleted file without git", "--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n", []File{{Name: "x", Kind: Delete, Removed: 1, Lines: []Line{{Hunk, "@@ -1 +0,0 @@", 1, 0}, {Minus, "a", 1, 0}}}}},
		{"rename only", "diff --git a/old name b/new name\nsimilarity index 100%\nrename from old name\nrename to new name\n", []File{{Name: "new name", OldName: "old name", Kind: Rename}}},
		{"rename only, and a file without git", "diff --git a/x b/y\nrename from x\nrename to y\n--- a/z\n+++ b/z\n" + hunk, []File{{Name: "y", OldName: "x", Kind: Rename}, {Name: "z", Kind: Update, Added: 1, Removed: 1, Lines: body}}},
		{"rename with changes", "diff --git a/x b/y\nsimilarity index 90%\nrename from x\nrename to y\nindex 1..2 100644\n--- a/x\n+++ b/y\n" + hunk, []File{{Name: "y", OldName: "x", Kind: Rename, Added: 1, Removed: 1, Lines: body}}},
		{"rename with names that could be split in two ways", "diff --git a/x b/y b/z\nrename from x b/y\nrename to z\n", []File{{Name: "z", OldName: "x b/y", Kind: Rename}}},
		{"names without a hunk", "--- a/x\n+++ b/x\n" + hunk + "--- a/y\n+++ b/y\n", []File{{Name: "x", Kind: Update, Added: 1, Removed: 1, Lines: body}, {Name: "y", Kind: Update}}},
		{"copy", "diff --git a/x b/y\nsimilarity index 100%\ncopy from x\ncopy to y\n", []File{{Name: "y", OldName: "x", Kind: Add}}},
		{"binary", "diff --git a/x.png b/x.png\nindex 1..2 100644\nBinary files a/x.png and b/x.png differ\ndiff --git a/y b/y\n", []File{{Name: "x.png", Kind: Binary, Lines: []Line{{Note, "Binary files a/x.png and b/x.png differ", 0, 0}}}, {Name: "y", Kind: Update}}},
		{"new binary", "diff --git a/x.png b/x.png\nnew file mode 100644\nBinary files /dev/null and b/x.png differ\n", []File{{Name: "x.png", Kind: Binary, Lines: []Line{{Note, "Binary files /dev/null and b/x.png differ", 0, 0}}}}},
		{"binary without git", "--- a/x\n+++ b/x\n" + hunk + "Binary files a/y and b/y differ\n", []File{{Name: "x", Kind: Update, Added: 1, Removed: 1, Lines: body}, {Name: "y", Kind: Binary, Lines: []Line{{Note, "Binary files a/y and b/y differ", 0, 0}}}}},
		{"binary files without git", "Binary files old/x y and new/x y differ\nBinary files a/z and /dev/null differ\n", []File{
			{Name: "new/x y", OldName: "old/x y", Kind: Binary, Lines: []Line{{Note, "Binary files old/x y and new/x y differ", 0, 0}}}, {Name: "z", Kind: Binary, Lines: []Line{{Note, "Binary files a/z and /dev/null differ", 0, 0}}}}},
		{"binary patch", "diff --git a/x b/x\nindex 1..2 100644\nGIT binary patch\nliteral 5\nMcmZ?wbhEHb\n\n+literal\n\ndiff --git a/y b/y\n" + hunk, []File{{Name: "x", Kind: Binary, Lines: []Line{{Note, "GIT binary patch", 0, 0}, {Note, "literal 5", 0, 0}, {Note, "McmZ?wbhEHb", 0, 0}, {Note, "", 0, 0}, {Note, "+literal", 0, 0}, {Note, "", 0, 0}}}, {Name: "y", Kind: Update, Added: 1, Removed: 1, Lines: body}}},
		{"quoted names", "diff --git \"a/caf\\303\\251\\t\\\"x\\\".txt\" \"b/caf\\303\\251\\t\\\"x\\\".txt\"\n--- \"a/caf\\303\\251\\t\\\"x\\\".txt\"\n+++ \"b/caf\\303\\251\\t\\\"x\\\".txt\"\n" + hunk, []File{{Name: "café\t\"x\".txt", Kind: Update, Added: 1, Removed: 1, Lines: body}}},
		{"one quoted name", "diff --git a/x \"b/\\303\\251\"\nrename from x\nrename to \"\\303\\251\"\n", []File{{Name: "é", OldName: "x", Kind: Rename}}},
		{"names with spaces", "diff --git a/a b/c b/a b/c\nold mode 100644\n", []File{{Name: "a b/c", Kind: Update, Lines: []Line{{Note, "old mode 100644", 0, 0}}}}},
		{"no prefix", "diff --git x/y x/y\n--- x/y\n+++ x/y\n" + hunk, []File{{Name: "x/y", Kind: Update, Added: 1, Removed: 1, Lines: body}}},
		{"diff -ru", "diff -ru old/x new/x\n--- old/x\t2026\n+++ new/x\t2026\n" + hunk + "Only in new: z\n", []File{{Name: "new/x", OldName: "old/x", Kind: Update, Added: 1, Removed: 1, Lines: append(body[:4:4], Line{Note, "Only in new: z", 0, 0})}}},
		{"broken diff lines", "diff -\ndiff --git \ndiff --git x\ndiff --git \"a\n", []File{{Kind: Update, Name: "-"}, {Kind: Update}, {Kind: Update, Name: "x"}, {Kind: Update, Name: "\"a"}}},
		{"crlf", strings.ReplaceAll("diff --git a/x b/x\n--- a/x\n+++ b/x\n"+hunk, "\n", "\r\n"), []File{{Name: "x", Kind: Update, Added: 1, Removed: 1, Lines: body}}},
		{"crlf in the file", "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\r\n+a\n", []File{{Name: "x", Kind: Update, Added: 1, Removed: 1, Lines: []Line{{Hunk, "@@ -1 +1 @@", 1, 1}, {Minus, "a\r", 1, 0}, {Plus, "a", 0, 1}}}}},
		{"no newline at the end", "@@ -1 +1 @@\n-a\n+b", []File{{Kind: Update, Added: 1, Removed: 1, Lines: []Line{{Hunk, "@@ -1 +1 @@", 1, 1}, {Minus, "a", 1, 0}, {Plus, "b", 0, 1}}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Parse(c.in, all)
			for i, f := range got {
				size := 0
				for _, l := range f.Lines {
					size += len(l.Text) + len("\n")
					if l.Kind == Plus || l.Kind == Minus || l.Kind == Context {
						size++
					}
				}
				if f.Count != len(f.Lines) || f.Size != size {
					t.Errorf("%q: %d lines, %d bytes, but %+v", c.in, f.Count, f.Size, f.Lines)
				}
				got[i].Count, got[i].Size = 0, 0
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("%q\n got %+v\nwant %+v", c.in, got, c.want)
			}
		})
	}
}

func all(int, int) bool { return true }

// upTo keeps n lines.
func upTo(n int) func(int, int) bool {
	return func(int, int) bool { n--; return n >= 0 }
}

func TestParseCountsWhatItDoesNotKeep(t *testing.T) {
	two := git + strings.ReplaceAll(git, "x.go", "y.go")
	whole := Parse(two, all)
	some := Parse(two, func(file, line int) bool { return file == 1 && line >= 2 && line < 5 })
	if len(some[0].Lines) != 0 || !reflect.DeepEqual(some[1].Lines, whole[1].Lines[2:5]) {
		t.Errorf("kept %+v", some)
	}
	for i := range some {
		some[i].Lines, whole[i].Lines = nil, nil
	}
	if !reflect.DeepEqual(some, whole) || whole[0].Count != 10 || whole[1].Added != 3 {
		t.Errorf("%+v, but with all lines %+v", some, whole)
	}
}

func TestLargeDiffIsQuick(t *testing.T) {
	for name, s := range map[string]string{
		"20,000 lines":        "--- a/x\n+++ b/x\n@@ -1,10000 +1,10000 @@\n" + strings.Repeat("-a\n+b\n", 10_000),
		"20,000 files":        strings.Repeat("diff --git a/x b/x\n", 20_000),
		"20,000 maybe names":  "@@\n" + strings.Repeat("--- a\n+++ b\n", 10_000),
		"20,000 hunks":        strings.Repeat("@@ -1 +1 @@\n", 20_000),
		"line of 2 MB":        "--- a/x\n+++ b/x\n@@ -1 +1 @@\n+" + strings.Repeat("x", 2<<20) + "\n",
		"names and long line": "@@\n" + strings.Repeat("--- a\n", 20_000) + "+++ " + strings.Repeat("x", 2<<20),
		"hunk line of 2 MB":   "@@ " + strings.Repeat("- ", 1<<20),
		"names of 2 MB":       "diff --git " + strings.Repeat(" b/", 700_000) + "\n--- \"" + strings.Repeat("\\\"", 1<<20),
	} {
		start := time.Now()
		files := Parse(s, all)
		t.Logf("%s: %v", name, time.Since(start)) // milliseconds; what is quadratic runs into the timeout of go test
		if len(files) == 0 {
			t.Errorf("%s: nothing", name)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(git, 5)
	f.Add("--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n\\ No newline at end of file\ndiff --git \"a/\\303\" b/x\nGIT binary patch\nx\n", 100)
	f.Add("Binary files a and b differ\r\n@@@ -1 +1 @@@\r\n \r\n-- \r\n", 0)
	f.Fuzz(func(t *testing.T, s string, max int) {
		if max < 0 || max > 1<<20 {
			max = 1 << 20
		}
		every, some := Parse(s, all), Parse(s, upTo(max))
		kept := 0
		for i, f := range every {
			lines := map[LineKind]int{}
			for _, l := range f.Lines {
				lines[l.Kind]++
				if l.Text != "" && !strings.Contains(s, l.Text) || strings.Contains(l.Text, "\n") || l.Old < 0 || l.New < 0 {
					t.Fatalf("%q: line %+v", s, l)
				}
				if l.Kind == Plus && l.Old != 0 || l.Kind == Minus && l.New != 0 || l.Kind == Note && l.Old+l.New != 0 {
					t.Fatalf("%q: numbers of %+v", s, l)
				}
			}
			if f.Added != lines[Plus] || f.Removed != lines[Minus] {
				t.Fatalf("%q: +%d -%d, but %v", s, f.Added, f.Removed, lines)
			}
			switch f.Kind {
			case Update, Add, Delete, Rename, Binary:
			default:
				t.Fatalf("%q: kind %q", s, f.Kind)
			}

			// Less room changes nothing but where the lines end.
			g := some[i]
			kept += len(g.Lines)
			if f.Count != len(f.Lines) || len(g.Lines) > 0 && !reflect.DeepEqual(g.Lines, f.Lines[:len(g.Lines)]) {
				t.Fatalf("%q: %d lines of %d", s, len(g.Lines), f.Count)
			}
			g.Lines, f.Lines = nil, nil
			if !reflect.DeepEqual(f, g) {
				t.Fatalf("%q: %+v with room, %+v without", s, f, g)
			}
		}
		if len(some) != len(every) || kept > max {
			t.Fatalf("%q: %d files, %d lines kept of at most %d", s, len(some), kept, max)
		}
	})
}

func ExampleParse() {
	four := func(_, line int) bool { return line < 4 }
	for _, f := range Parse(git, four) {
		fmt.Println(f.Name, f.Kind, f.Added, f.Removed)
		for _, l := range f.Lines {
			fmt.Println(l.Kind, l.Old, l.New, l.Text)
		}
		fmt.Println(f.Count-len(f.Lines), "more")
	}
	// Output:
	// x.go update 3 1
	// hunk 1 1 @@ -1,3 +1,4 @@ func main() {
	// ctx 1 1 one
	// del 2 0 two
	// add 0 2 TWO
	// 6 more
}
