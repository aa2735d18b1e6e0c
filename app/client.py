"""The client of `purse` under a second name, which programs outside of this project import."""

from purse import AsyncClient as AsyncClient
from purse import Client as Client
