"""Routes for clients of OpenAI's API, answered by the same runs. Only a part of the API: what a run cannot do is
refused."""
