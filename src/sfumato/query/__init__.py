"""From a question to a plan: what may be asked, in one form per meaning. Pure: no row is read here."""
