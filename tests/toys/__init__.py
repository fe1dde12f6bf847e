"""One small engine, mechanism, statistic and store, each in one file: what the ports ask of a new one."""
