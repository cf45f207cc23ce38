"""The steps of `lagwatch check`: they use the clients and decoders of the collectors, which never import them."""
