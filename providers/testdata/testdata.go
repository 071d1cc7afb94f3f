// Package testdata embeds the vectors and examples of the providers, for tests.
package testdata

import "embed"

// Files contains <provider>/vectors.json and octokit/.
//
//go:embed */*.json octokit/*
var Files embed.FS
