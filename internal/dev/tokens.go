package dev

import (
	"crypto/rand"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// tenantOfFleet is whose token the fleet's own is. No job is ever this tenant's.
const tenantOfFleet = "assay-dev"

// ownToken makes the token with which the fleet asks its own dispatcher, where that one lets in nobody without: only an
// operator sees workers, so no token of the user's would do. It returns what the dispatcher is told, after everything
// else that it is told; nothing where everybody is let in.
func (f *Fleet) ownToken() (env []string, err error) {
	tokens := f.inherited("ASSAY_TOKENS")
	if path, ok := strings.CutPrefix(tokens, "@"); ok {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("ASSAY_TOKENS: %w", err)
		}
		tokens = string(text)
	}
	if strings.TrimSpace(tokens) == "" { // of a file: the dispatcher, which is told of it, too, refuses it
		return nil, nil
	}
	f.token = rand.Text()
	// A line of its own: the last one of a file may be a comment.
	return []string{"ASSAY_TOKENS=" + tokens + "\n" + f.token + "=" + tenantOfFleet + ":operator"}, nil
}

// OperatorToken returns the token of an operator that the fleet has made for itself. It is empty where the dispatcher
// was given no tokens: the user of this process is an admin there.
func (f *Fleet) OperatorToken() string { return f.token }

// inherited is what the dispatcher is told of name by the environment that wins, else by that of this process.
func (f *Fleet) inherited(name string) string { return f.setting(name, os.Getenv(name)) }

// OwnTokens returns the tokens of a fleet that has one user: a token, and the Unix user who
// runs this program, who needs none over loopback. Under sudo that is also the user who called
// it.
func OwnTokens(token string, env func(string) string) string {
	const admin = "=default:admin" // the tenant of a fleet without tokens
	all := []string{token + admin, "uid:" + strconv.Itoa(os.Geteuid()) + admin}
	if uid, err := strconv.Atoi(env("SUDO_UID")); err == nil && os.Geteuid() == 0 {
		all = append(all, "uid:"+strconv.Itoa(uid)+admin)
	}
	return strings.Join(all, ",")
}
