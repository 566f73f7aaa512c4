//go:build ui

package ui

import "github.com/assay-run/assay/api"

func executeRequest(code string) api.ExecuteRequest { return api.ExecuteRequest{Code: code} }
