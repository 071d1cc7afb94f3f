package server

import "context"

// CatchUp does [app.App.CatchUp] with the App that leads.
func (s *Server) CatchUp(ctx context.Context) { s.lead().app.CatchUp(ctx) }
