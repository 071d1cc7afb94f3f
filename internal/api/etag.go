package api

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
)

// tagSum is the length of the second part of an ETag. An ETag is the tag of the state that a decision may be about, if
// the answer has one, then a dot, then the beginning of the hash of the whole answer. If-Match compares the first part,
// If-None-Match the whole ETag.
const tagSum = 16

// etag returns the ETag of an answer with its text.
func etag(answer any, text []byte) string {
	sum := sha256.Sum256(text)
	tag := "." + hex.EncodeToString(sum[:])[:tagSum]
	if from, ok := answer.(tagged); ok {
		tag = from.Tag() + tag
	}
	return `"` + tag + `"`
}

// known reports whether the caller already has the answer.
func known(r *http.Request, tag string) bool {
	for _, value := range r.Header.Values("If-None-Match") {
		for given := range strings.SplitSeq(value, ",") {
			if given = strings.TrimPrefix(strings.TrimSpace(given), "W/"); given == tag || given == "*" {
				return true
			}
		}
	}
	return false
}
