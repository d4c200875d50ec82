package auth

import (
	"context"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"
)

// Cost of a guess, as RFC 9106 section 4 recommends where memory is short: 64 MiB,
// three passes.
const (
	argonTime    = 3
	argonMemory  = 64 << 10 // KiB
	argonThreads = 4
	argonKey     = 32
)

// Bounds of a password, in characters. The upper one only bounds what is hashed.
const (
	minPassword = 10
	maxPassword = 500
)

// ErrPassword: a new password is too short or too long.
var ErrPassword = errors.New("auth: the password is too short or too long")

const doorPassword = "password"

// guesses lets one password be hashed at a time, which costs memory.
var guesses = make(chan struct{}, 1)

// HasPassword reports whether a password is set.
func (a *Auth) HasPassword(ctx context.Context) (bool, error) {
	stored, err := a.Store.Door(ctx, doorPassword)
	return stored != "", err
}

// SetPassword sets the password, "" for none, and ends the sessions of all devices
// but the one that set it: whoever knew the old one is out.
func (a *Auth) SetPassword(ctx context.Context, deviceID, password string) error {
	stored := ""
	if password != "" {
		if n := utf8.RuneCountInString(password); n < minPassword || n > maxPassword {
			return ErrPassword
		}
		var err error
		if stored, err = HashPassword(ctx, password); err != nil {
			return err
		}
	}
	a.keys.Lock()
	defer a.keys.Unlock()
	if err := a.Store.PutDoor(ctx, doorPassword, stored); err != nil {
		return err
	}
	a.pair.withdraw("")
	return a.RevokeOthers(ctx, deviceID)
}

func (a *Auth) checkPassword(ctx context.Context, password string) error {
	stored, err := a.Store.Door(ctx, doorPassword)
	if err != nil {
		return err
	}
	return CheckPassword(ctx, stored, password)
}

// HashPassword returns what to keep of a password.
func HashPassword(ctx context.Context, password string) (stored string, err error) {
	salt := random()[:16]
	key, err := argon(ctx, password, salt)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, argonMemory, argonTime, argonThreads,
		base64.RawStdEncoding.EncodeToString(salt), base64.RawStdEncoding.EncodeToString(key)), nil
}

// CheckPassword reports ErrBadProof if a password is not the one that is kept.
func CheckPassword(ctx context.Context, stored, password string) error {
	var version, memory, time, threads int
	var rest string
	if _, err := fmt.Sscanf(stored, "$argon2id$v=%d$m=%d,t=%d,p=%d$%s", &version, &memory, &time, &threads, &rest); err != nil {
		return ErrBadProof
	}
	var salt, want []byte
	for i := range rest {
		if rest[i] == '$' {
			salt, _ = base64.RawStdEncoding.DecodeString(rest[:i])
			want, _ = base64.RawStdEncoding.DecodeString(rest[i+1:])
		}
	}
	if utf8.RuneCountInString(password) > maxPassword {
		return ErrBadProof
	}
	got, err := argon(ctx, password, salt)
	if err != nil {
		return err
	}
	if len(want) != argonKey || subtle.ConstantTimeCompare(got, want) != 1 {
		return ErrBadProof
	}
	return nil
}

func argon(ctx context.Context, password string, salt []byte) ([]byte, error) {
	select {
	case guesses <- struct{}{}:
		defer func() { <-guesses }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return argon2.IDKey([]byte(password), salt, argonTime, argonMemory, argonThreads, argonKey), nil
}
