"""The client, which is `purse.Client`, under a second name."""

from purse import AsyncClient as AsyncClient
from purse import Client as Client
