//go:build !crashpoint

package crashpoint

// At does nothing, and is inlined away.
func At(string) {}
